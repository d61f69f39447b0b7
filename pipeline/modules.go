package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/ir"
)

// A module is a step of sentence-transformers' modules.json.
type module struct {
	kind  string // the last part of its type
	path  string // its folder, relative
	what  string // for people
	where string

	pooling   pooling
	layer     layer // of Dense, LayerNorm and Normalize
	onTokens  bool  // the layer works on each token's vector
	skip      []string
	keep      []int64
	skipTasks []string
	splade    splade
}

// pooling is how one vector is made of the tokens'.
type pooling struct {
	modes         []Pooling
	includePrompt bool
}

// A Pooling makes one vector from the vectors of tokens. The names are those of sentence-transformers.
type Pooling string

// The poolings.
const (
	PoolCLS          Pooling = "cls"                  // the first token's vector
	PoolMax          Pooling = "max"                  // the largest number of each column
	PoolMean         Pooling = "mean"                 // the mean over the tokens
	PoolMeanSqrt     Pooling = "mean_sqrt_len_tokens" // the sum, divided by the root of the number of tokens
	PoolWeightedMean Pooling = "weightedmean"         // the mean, with weights 1, 2, 3, …
	PoolLastToken    Pooling = "lasttoken"            // the last token's vector
)

// poolings are the poolings, with their names in older files.
var poolings = []struct {
	mode Pooling
	old  string
}{
	{PoolCLS, "pooling_mode_cls_token"},
	{PoolMax, "pooling_mode_max_tokens"},
	{PoolMean, "pooling_mode_mean_tokens"},
	{PoolMeanSqrt, "pooling_mode_mean_sqrt_len_tokens"},
	{PoolWeightedMean, "pooling_mode_weightedmean_tokens"},
	{PoolLastToken, "pooling_mode_lasttoken"},
}

// Poolings lists all poolings.
func Poolings() []Pooling {
	names := make([]Pooling, len(poolings))
	for i, p := range poolings {
		names[i] = p.mode
	}
	return names
}

// splade is how a sparse vector is made of the tokens' logits.
type splade struct {
	sum   bool // of the tokens' weights, instead of the largest
	twice bool // log(1+x) is taken twice
}

// logs is how many times log(1+x) is taken.
func (s splade) logs() int {
	if s.twice {
		return 2
	}
	return 1
}

// A layer changes vectors. build appends it to a graph: x and the result are [batch,size] or [batch,tokens,size].
type layer interface {
	build(b *headBuilder, x *ir.Value) *ir.Value
}

// moduleEntry is an element of modules.json.
type moduleEntry struct {
	Index int    `json:"idx"`
	Path  string `json:"path"`
	Type  string `json:"type"`
}

// readModules reads modules.json; a folder without it has no modules.
func (d *Description) readModules(o Options) error {
	var list []moduleEntry
	found, err := readJSON(d.system, d.Dir, "modules.json", &list)
	if err != nil {
		return err
	}
	if !found && d.static != nil {
		list = append(list, moduleEntry{0, "", "." + staticModule})
		if d.config.Normalize {
			list = append(list, moduleEntry{1, "", "Normalize"})
		}
	} else if !found { // what is beside a model that was exported without it
		sub, err := readJSON(d.system, d.Dir, "sentence_bert_config.json", &d.sbert)
		if err != nil {
			return err
		}
		if d.system.IsFile(filepath.Join(d.Dir, "1_Pooling", "config.json")) {
			list = append(list, moduleEntry{0, "1_Pooling", "Pooling"})
		} else if sub {
			d.note("modules", "sentence_bert_config.json", "no modules.json: only the length is known")
		}
	}
	slices.SortStableFunc(list, func(a, b moduleEntry) int { return cmp.Compare(a.Index, b.Index) })
	pooled := false
	for _, entry := range list {
		if entry.Path != "" && !filepath.IsLocal(filepath.FromSlash(entry.Path)) {
			return fmt.Errorf("%s: module %q is outside the folder", filepath.Join(d.Dir, "modules.json"), entry.Path)
		}
		kind := entry.Type[strings.LastIndexByte(entry.Type, '.')+1:]
		read, ok := moduleReaders[kind]
		if !ok {
			return fmt.Errorf("%s: module %d has the type %q; supported are %s", filepath.Join(d.Dir, "modules.json"), entry.Index,
				entry.Type,
				strings.Join(sortedKeys(moduleReaders), ", "))
		}
		m := module{kind: kind, path: entry.Path, where: path.Join(entry.Path, "config.json"), onTokens: !pooled}
		if err := read(d, &m); err != nil {
			return err
		}
		pooled = pooled || m.kind == "Pooling" || m.kind == "SpladePooling"
		d.modules = append(d.modules, m)
	}
	return d.overrideModules(o)
}

// normalizes reports whether the last module scales the vectors of texts to length 1.
func (d *Description) normalizes() bool {
	last := module{}
	for _, m := range d.modules {
		if m.layer != nil && !m.onTokens {
			last = m
		}
	}
	return last.kind == "Normalize"
}

// optionFile is named instead of a file for what an option says.
const optionFile = "option"

// overrideModules applies the options.
func (d *Description) overrideModules(o Options) error {
	if o.Pooling != "" {
		if err := oneOf("pooling", o.Pooling, Poolings()); err != nil {
			return err
		}
		m := module{kind: "Pooling", where: optionFile, what: "pooling " + string(o.Pooling), pooling: pooling{[]Pooling{o.Pooling}, true}}
		if i := slices.IndexFunc(d.modules, func(m module) bool { return m.kind == "Pooling" }); i >= 0 {
			d.modules[i] = m
		} else {
			d.modules = append(d.modules, m)
		}
	}
	if o.Normalize != nil {
		d.modules = slices.DeleteFunc(d.modules, func(m module) bool { return m.kind == "Normalize" })
		if *o.Normalize {
			d.modules = append(d.modules, module{kind: "Normalize", where: optionFile, what: "normalize", layer: normalize{}})
		}
	}
	return nil
}

// moduleReaders read the modules' files.
var moduleReaders = map[string]func(d *Description, m *module) error{
	"Transformer":     readTransformer,
	"MLMTransformer":  readTransformer,
	"Pooling":         readPooling,
	"Dense":           readDense,
	"LayerNorm":       readLayerNorm,
	"Normalize":       readNormalize,
	"Dropout":         func(*Description, *module) error { return nil },
	"SpladePooling":   readSplade,
	"MultiVectorMask": readMask,
	staticModule:      readStatic,
}

func readTransformer(d *Description, m *module) error {
	_, err := readJSON(d.system, d.Dir, path.Join(m.path, "sentence_bert_config.json"), &d.sbert)
	if err != nil {
		return err
	}
	if e := d.sbert.Expansion; e != nil && (e.Length < 1 || e.Length > longestQuery || e.Strategy != "fixed" && e.Strategy != "min") {
		return fmt.Errorf("%s: query_expansion has the strategy %q and the length %d; want fixed or min, and a length",
			filepath.Join(d.Dir, m.path, "sentence_bert_config.json"), e.Strategy, e.Length)
	}
	return nil
}

func readPooling(d *Description, m *module) error {
	var raw map[string]json.RawMessage
	found, err := readJSON(d.system, d.Dir, m.where, &raw)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s is missing, but modules.json names it", filepath.Join(d.Dir, m.where))
	}
	m.pooling.includePrompt = true
	if v, ok := raw["include_prompt"]; ok {
		if err := json.Unmarshal(v, &m.pooling.includePrompt); err != nil {
			return fmt.Errorf("%s: include_prompt: %w", filepath.Join(d.Dir, m.where), err)
		}
	}
	if v, ok := raw["pooling_mode"]; ok {
		var one Pooling
		if json.Unmarshal(v, &one) == nil {
			m.pooling.modes = []Pooling{one}
		} else if err := json.Unmarshal(v, &m.pooling.modes); err != nil {
			return fmt.Errorf("%s: pooling_mode: %w", filepath.Join(d.Dir, m.where), err)
		}
	} else {
		for _, p := range poolings {
			if string(raw[p.old]) == "true" {
				m.pooling.modes = append(m.pooling.modes, p.mode)
			}
		}
		if len(m.pooling.modes) == 0 {
			m.pooling.modes = []Pooling{PoolMean} // as sentence-transformers
		}
	}
	for _, mode := range m.pooling.modes {
		if err := oneOf("pooling", mode, Poolings()); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(d.Dir, m.where), err)
		}
	}
	m.what = "pooling " + joined(m.pooling.modes, "+")
	if !m.pooling.includePrompt {
		m.what += " without the prompt"
	}
	return nil
}

// activations are the functions of Dense modules.
var activations = map[string]ir.Unary{
	"Tanh":      {Fn: ir.Tanh},
	"Identity":  {},
	"ReLU":      {Fn: ir.Relu},
	"GELU":      {Fn: ir.Gelu},
	"Sigmoid":   {Fn: ir.Sigmoid},
	"SiLU":      {Fn: ir.Silu, Alpha: 1},
	"LeakyReLU": {Fn: ir.LeakyRelu, Alpha: 0.01},
	"Softplus":  {Fn: ir.Softplus},
	"ELU":       {Fn: ir.Elu, Alpha: 1},
	"Mish":      {Fn: ir.Mish},
	"Hardtanh":  {Fn: ir.Clamp, Alpha: -1, Beta: 1},
}

// dense is y = activation(W·x + b).
type dense struct {
	in, out    int
	weight     []float32 // [out, in]
	bias       []float32 // nil for none
	activation ir.Unary  // Fn is ir.NoUnary for none
	residual   bool
}

func readDense(d *Description, m *module) error {
	c := struct {
		In         int     `json:"in_features"`
		Out        int     `json:"out_features"`
		Bias       bool    `json:"bias"`
		Activation *string `json:"activation_function"`
		Input      string  `json:"module_input_name"`
		Residual   bool    `json:"use_residual"`
	}{Bias: true}
	file := filepath.Join(d.Dir, m.where)
	found, err := readJSON(d.system, d.Dir, m.where, &c)
	if err != nil {
		return err
	}
	if !found || c.In < 1 || c.Out < 1 || c.Residual && c.In != c.Out {
		return fmt.Errorf("%s: in_features and out_features of a Dense module are missing", file)
	}
	name := "Tanh"
	if c.Activation != nil {
		name = (*c.Activation)[strings.LastIndexByte(*c.Activation, '.')+1:]
	}
	activation, ok := activations[name]
	l := &dense{in: c.In, out: c.Out, activation: activation, residual: c.Residual}
	if !ok {
		return fmt.Errorf("%s: the activation %q is not one of %s", file, name, strings.Join(sortedKeys(activations), ", "))
	}
	if c.Input != "" {
		m.onTokens = c.Input == "token_embeddings"
	}
	weights, err := openSafetensors(d.system, filepath.Join(d.Dir, m.path, "model.safetensors"))
	if err != nil {
		return err
	}
	defer weights.Close()
	if l.weight, err = weights.floats("linear.weight", c.Out, c.In); err != nil {
		return err
	}
	if c.Bias {
		if l.bias, err = weights.floats("linear.bias", c.Out); err != nil {
			return err
		}
	}
	m.layer = l
	m.what = fmt.Sprintf("dense %d to %d, %s", c.In, c.Out, name)
	return nil
}

// layerNorm is PyTorch's LayerNorm.
type layerNorm struct{ weight, bias []float32 }

func readLayerNorm(d *Description, m *module) error {
	var c struct {
		Dimension int `json:"dimension"`
	}
	if found, err := readJSON(d.system, d.Dir, m.where, &c); err != nil {
		return err
	} else if !found || c.Dimension < 1 {
		return fmt.Errorf("%s: the dimension of a LayerNorm module is missing", filepath.Join(d.Dir, m.where))
	}
	weights, err := openSafetensors(d.system, filepath.Join(d.Dir, m.path, "model.safetensors"))
	if err != nil {
		return err
	}
	defer weights.Close()
	l := &layerNorm{}
	if l.weight, err = weights.floats("norm.weight", c.Dimension); err != nil {
		return err
	}
	if l.bias, err = weights.floats("norm.bias", c.Dimension); err != nil {
		return err
	}
	m.layer, m.what = l, fmt.Sprintf("layer normalisation of %d", c.Dimension)
	return nil
}

// normalize scales a vector to length 1.
type normalize struct{}

func readNormalize(d *Description, m *module) error {
	var c struct {
		Input string `json:"module_input_name"`
	}
	if _, err := readJSON(d.system, d.Dir, m.where, &c); err != nil {
		return err
	}
	if c.Input != "" {
		m.onTokens = c.Input == "token_embeddings"
	}
	m.layer, m.what = normalize{}, "normalize"
	return nil
}

func readSplade(d *Description, m *module) error {
	c := struct {
		Strategy   string `json:"pooling_strategy"`
		Activation string `json:"activation_function"`
	}{"max", "relu"}
	if _, err := readJSON(d.system, d.Dir, m.where, &c); err != nil {
		return err
	}
	if !slices.Contains([]string{"max", "sum"}, c.Strategy) || !slices.Contains([]string{"relu", "log1p_relu"}, c.Activation) {
		return fmt.Errorf("%s: pooling %q with activation %q: want max or sum, relu or log1p_relu", filepath.Join(d.Dir, m.where),
			c.Strategy, c.Activation)
	}
	m.splade = splade{sum: c.Strategy == "sum", twice: c.Activation == "log1p_relu"}
	m.what = "SPLADE " + c.Strategy + " of " + c.Activation
	return nil
}

func readMask(d *Description, m *module) error {
	c := struct {
		Words []string `json:"skiplist_words"`
		Tasks []string `json:"skiplist_tasks"`
		Keep  []int64  `json:"keep_only_token_ids"`
	}{Tasks: []string{"document"}}
	if _, err := readJSON(d.system, d.Dir, m.where, &c); err != nil {
		return err
	}
	m.skip, m.skipTasks, m.keep = c.Words, c.Tasks, c.Keep
	m.what = fmt.Sprintf("vectors of all tokens but %d words", len(c.Words))
	return nil
}
