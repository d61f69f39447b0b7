package pipeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/jsontext"
	"github.com/rlxc/rlxc/tokenizer"
)

// A Task is what a model was trained for.
type Task string

// The tasks, by the command that they have in rlxc.
const (
	Embedding   Task = "embed"
	Sparse      Task = "embed sparse"       // weights for the words of the vocabulary
	MultiVector Task = "embed multi-vector" // a vector for each token
	Classifying Task = "classify"
	ZeroShot    Task = "classify zero-shot" // of a classifier that reports entailment
	Reranking   Task = "rerank"
	Tagging     Task = "tag"
	ZeroShotTag Task = "tag zero-shot" // a GLiNER model, which finds entities of labels that the caller names
	Answering   Task = "answer"
	Filling     Task = "fill"
)

// A Description is what the files next to a model say about its use, with the file for each setting.
type Description struct {
	Dir       string    `json:"dir"`       // the folder of config.json
	Model     string    `json:"model"`     // path of the ONNX or compiled file
	Variants  []string  `json:"variants"`  // all model files, relative to Dir
	Tokenizer string    `json:"tokenizer"` // path of its file, or ownTokenizer
	Task      Task      `json:"task"`
	MaxLength int       `json:"max_length"` // tokens of a sequence, special ones among them; 0 if nothing says
	Found     []Finding `json:"found"`

	models files.System // where Model is
	system files.System // where Dir is: models, or the files within a compiled file
	chosen bool         // Tokenizer is a path of models that the options name, and not of system

	own tokenizer.Interface // Options.OwnTokenizer

	config  config
	sbert   sbertConfig
	prompts promptConfig
	modules []module
	gliner  *glinerConfig // nil for other models
	static  *static       // nil for other models
}

// A Finding is one setting and the file that it comes from.
type Finding struct {
	What  string `json:"what"`
	Value string `json:"value"`
	Where string `json:"where"` // a file relative to Dir, or what else decided
}

func (d *Description) note(what, where, format string, values ...any) {
	d.Found = append(d.Found, Finding{what, fmt.Sprintf(format, values...), where})
}

// config is what counts of config.json.
type config struct {
	Architectures   []string          `json:"architectures"`
	ModelType       string            `json:"model_type"`
	ID2Label        map[string]string `json:"id2label"`
	NumLabels       *int              `json:"num_labels"`
	ProblemType     string            `json:"problem_type"`
	FunctionToApply string            `json:"function_to_apply"`
	PadTokenID      *int64            `json:"pad_token_id"`
	MaxPositions    int               `json:"max_position_embeddings"`
	Positions       int               `json:"n_positions"`
	VocabSize       int               `json:"vocab_size"`
	HiddenSize      int               `json:"hidden_size"`
	MaxLength       *int              `json:"max_length"` // of model2vec
	Normalize       bool              `json:"normalize"`  // of model2vec
	OldActivation   *string           `json:"sbert_ce_default_activation_function"`
	Sentence        struct {
		Activation *string `json:"activation_fn"`
	} `json:"sentence_transformers"`
	Text struct { // keys of a dual encoder's text tower
		MaxPositions int `json:"max_position_embeddings"`
	} `json:"text_config"`
	Scale *float64 `json:"logit_scale_init_value"` // logarithm of a dual encoder's scale of logits before its training

	labels []string // by id
}

// sbertConfig is what counts of sentence_bert_config.json.
type sbertConfig struct {
	MaxLength      int        `json:"max_seq_length"`
	Lowercase      bool       `json:"do_lower_case"`
	QueryLength    int        `json:"query_length"`
	DocumentLength int        `json:"document_length"`
	Expansion      *expansion `json:"query_expansion"`
}

// expansion is how a ColBERT model lengthens queries.
type expansion struct {
	Strategy string `json:"strategy"` // fixed or min
	Attend   bool   `json:"attend"`
	Token    string `json:"token"`
	Length   int    `json:"length"`
}

// longestQuery bounds the length that a file gives queries: memory for it is taken before a run refuses it.
const longestQuery = 1 << 16

// promptConfig is what counts of config_sentence_transformers.json.
type promptConfig struct {
	Kind       string            `json:"model_type"`
	Prompts    map[string]string `json:"prompts"`
	Default    *string           `json:"default_prompt_name"`
	Similarity *Similarity       `json:"similarity_fn_name"`
	Activation *string           `json:"activation_fn"`

	fallback *string // the text of the default prompt, as the options say
}

// maxConfig bounds the JSON files that are read whole.
const maxConfig = 16 << 20

// readJSON reads a file of a folder; found is false if there is none.
func readJSON(system files.System, dir, name string, to any) (found bool, err error) {
	file := filepath.Join(dir, filepath.FromSlash(name))
	info, err := system.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular() || info.Size() > maxConfig:
		return false, fmt.Errorf("%s: want a regular file of at most %d MiB", file, maxConfig>>20)
	}
	data, err := system.ReadFile(file, maxConfig)
	if err != nil {
		return false, err
	}
	if err := cmp.Or(jsontext.Check(data), json.Unmarshal(data, to)); err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	return true, nil
}

// Describe reads the files of a model, given its folder or a model file in it. It loads no weights. Options override what it finds. It
// fails with an error of the file system, or with an error that names the invalid file.
func Describe(path string, o Options) (*Description, error) {
	d := &Description{models: files.System{FS: o.FS}}
	d.system = d.models
	if err := d.locate(path, o.Variant, textFile); err != nil {
		return nil, err
	}
	if err := d.read(o); err != nil {
		return nil, err
	}
	return d, nil
}

// filesIn returns the files that a compiled file holds beside its program, and nil for any other file.
func filesIn(system files.System, path string) (fs.FS, error) {
	if filepath.Ext(path) != compiledExt {
		return nil, nil
	}
	m, err := system.Map(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	held, err := artifact.Files(m.Bytes())
	if err != nil {
		return nil, kindError{fmt.Errorf("%s: %w", path, err), rlxc.ErrInvalidModel}
	}
	return held, nil
}

// tokenizerSystem returns where Tokenizer is a path.
func (d *Description) tokenizerSystem() files.System {
	if d.chosen {
		return d.models
	}
	return d.system
}

// OpenTokenizer opens the tokenizer that the description found. It fails as tokenizer.Open does. Of Options.OwnTokenizer it makes a
// tokenizer without the options, and fails as tokenizer.New does.
func (d *Description) OpenTokenizer(options ...tokenizer.Option) (*tokenizer.Tokenizer, error) {
	if d.own != nil {
		return tokenizer.New(d.own)
	}
	return tokenizer.OpenFS(d.tokenizerSystem(), d.Tokenizer, options...)
}

// OpenModel opens the model file, without compiling it. It fails as rlxc.Open does.
func (d *Description) OpenModel() (*rlxc.Model, error) {
	if d.static != nil {
		return nil, d.noModel()
	}
	if d.models.FS == nil {
		return rlxc.Open(d.Model)
	}
	return rlxc.OpenFS(d.models.FS, d.Model)
}

// SkipsPadding reports whether runs may skip padding. They may not for a ColBERT model that lengthens queries by tokens which the mask
// hides: the vectors of these tokens count.
func (d *Description) SkipsPadding() bool {
	x := d.sbert.Expansion
	return x == nil || x.Attend
}

// Files returns the files that say how the model is used, by their paths relative to Dir: configuration, tokenizer, and the weights of
// small modules. A compiled file that rlxc.Program.SaveWith writes with these files is opened as the folder is. It fails with an error of
// the file system.
func (d *Description) Files() (map[string][]byte, error) {
	all := map[string][]byte{}
	for folder := range d.folders() {
		list, err := d.system.ReadDir(filepath.Join(d.Dir, folder))
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			name := path.Join(folder, e.Name())
			if file := filepath.Join(d.Dir, filepath.FromSlash(name)); isSetting(name) && d.system.IsFile(file) {
				if all[name], err = d.system.ReadFile(file, maxSetting); err != nil {
					return nil, err
				}
			}
		}
	}
	return all, nil
}

// maxSetting bounds a file that Files reads: the largest tokenizers have some 40 MB.
const maxSetting = 256 << 20

// folders are the folders that have files of the model: its own, and those of modules.
func (d *Description) folders() map[string]bool {
	folders := map[string]bool{"": true}
	for _, m := range d.modules {
		if info, err := d.system.Stat(filepath.Join(d.Dir, m.path)); m.where != optionFile && err == nil && info.IsDir() {
			folders[m.path] = true
		}
	}
	return folders
}

const compiledExt = ".rlxc"

const onnxFolder = "onnx"

// textFile and visionFile are the beginnings of the names of the files of a dual encoder's towers, before the variant.
const (
	textFile   = "text_model"
	visionFile = "vision_model"
)

// locate finds the folder of the configuration and the model file: of a folder with a file for each tower, the file
// whose name begins with tower.
func (d *Description) locate(where, variant, tower string) error {
	info, err := d.models.Stat(where)
	if err != nil {
		return err
	}
	if folder := staticFolder(d.models, where); folder != "" && !info.IsDir() {
		where = folder
	} else if !info.IsDir() {
		if variant != "" {
			return fmt.Errorf("%s is a file: to choose a variant, name its folder", where)
		}
		d.Model, d.Dir = where, filepath.Dir(where)
		d.note("model", "the path", "%s", where)
		if held, err := filesIn(d.models, where); err != nil {
			return err
		} else if held != nil {
			d.system, d.Dir = files.System{FS: held, Root: where}, where
			return nil
		}
		folder := d.Dir
		if d.models.FS == nil { // the folder of "model.onnx" has a name
			if abs, err := filepath.Abs(folder); err == nil {
				folder = abs
			}
		}
		if filepath.Base(folder) == onnxFolder && !d.system.IsFile(filepath.Join(d.Dir, "config.json")) {
			d.Dir = filepath.Dir(folder)
		}
		return nil
	}
	d.Dir = where
	if table, found, err := findStatic(d.models, where); err != nil {
		return err
	} else if found && variant == "" {
		d.Model = filepath.Join(where, filepath.FromSlash(table))
		d.note("model", table, "static embeddings")
		d.static, err = newStatic(d.models, d.Model)
		return err
	}
	for _, folder := range []string{onnxFolder, ""} {
		list, err := d.models.ReadDir(filepath.Join(where, folder))
		if err != nil && !(folder != "" && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		for _, e := range list {
			if isModel(e.Name()) {
				d.Variants = append(d.Variants, path.Join(folder, e.Name()))
			}
		}
	}
	file, err := choose(d.Variants, variant, tower)
	if err != nil {
		return fmt.Errorf("folder %s: %w", where, err)
	}
	d.Model = filepath.Join(where, filepath.FromSlash(file))
	others := ""
	if n := len(d.Variants) - 1; n > 0 {
		others = fmt.Sprintf(", of %d variants", n+1)
	}
	d.note("model", file, "%s%s", file, others)
	return nil
}

// ModelFile returns the path of the model file that Open would open for a variant in a folder. It fails with an error of the file system,
// or if the folder has no such file. A table of static embeddings is none.
func ModelFile(folder, variant string) (string, error) {
	d := &Description{}
	err := d.locate(folder, variant, "")
	if err == nil && d.static != nil {
		return "", d.noModel()
	}
	return d.Model, err
}

// noModel is the error for a table of static embeddings where an ONNX file is needed.
func (d *Description) noModel() error {
	return fmt.Errorf("%s is a table of static embeddings and no ONNX file: the commands on texts and serve take it", d.Model)
}

func isModel(name string) bool {
	return strings.HasSuffix(name, ".onnx") || strings.HasSuffix(name, compiledExt)
}

// choose picks a model file: that of the tower, or else model.onnx, in the folder onnx first, or that of a variant ("quantized" is
// model_quantized.onnx).
func choose(files []string, variant, tower string) (string, error) {
	if len(files) == 0 {
		return "", errors.New("no .onnx file in it or in its subfolder onnx: export the model, for example with: optimum-cli " +
			"export onnx")
	}
	names := []string{tower + ".onnx", "model.onnx"}
	if variant != "" {
		names = []string{variant, variant + ".onnx", tower + "_" + variant + ".onnx", "model_" + variant + ".onnx",
			"model-" + variant + ".onnx"}
	}
	for _, name := range names {
		for _, file := range files {
			if file == name || path.Base(file) == name {
				return file, nil
			}
		}
	}
	if len(files) == 1 && variant == "" {
		return files[0], nil
	}
	if variant == "" {
		return "", fmt.Errorf("it has no model.onnx: choose a variant of %s", strings.Join(files, ", "))
	}
	return "", fmt.Errorf("it has no variant %q: choose one of %s", variant, strings.Join(files, ", "))
}

// Files chooses the files of a repository that this package needs: configuration, tokenizer, the weights of small modules, and one
// variant of the model with its external data. Of a dual encoder without a file of both towers, it chooses the files of the two towers.
// Pass it to hub.Client.Snapshot.
func Files(variant string) func(paths []string) []string {
	return func(paths []string) []string {
		var models, out []string
		for _, p := range paths {
			if dir := path.Dir(p); isModel(p) && (dir == "." || dir == onnxFolder) {
				models = append(models, p)
			}
		}
		model, err := choose(models, variant, "")
		chosen := []string{model}
		if err != nil { // not one file
			text, failed := choose(models, variant, textFile)
			vision, failed2 := choose(models, variant, visionFile)
			if errors.Join(failed, failed2) == nil {
				chosen, err = []string{text, vision}, nil
			}
		}
		for _, p := range paths {
			switch {
			case err == nil && slices.ContainsFunc(chosen, func(model string) bool {
				return p == model || strings.HasPrefix(p, model+"_") || strings.HasPrefix(p, model+".")
			}):
			case isSetting(p):
			case p == staticFile && mayBeStatic(paths):
			default:
				continue
			}
			out = append(out, p)
		}
		if err != nil && !slices.ContainsFunc(out, func(p string) bool { return path.Base(p) == staticFile && mayBeStatic(paths) }) {
			return append(out, "model.onnx") // which is not there: the error names it
		}
		return out
	}
}

// isSetting reports whether a file of a repository says how the model is used: configuration, tokenizer, or weights of a module.
func isSetting(file string) bool {
	dir, base := path.Dir(file), path.Base(file)
	switch ext := path.Ext(base); {
	case ext == ".json":
		return !strings.HasPrefix(base, "trainer") && dir != "openvino"
	case ext == ".model":
		return dir == "."
	}
	return base == "vocab.txt" || base == "merges.txt" || base == staticFile && moduleFolder(dir)
}

// moduleFolder reports whether a folder holds a module of sentence-transformers, such as 2_Dense.
func moduleFolder(dir string) bool {
	number, _, ok := strings.Cut(dir, "_")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// readConfig reads config.json, if there is one.
func (d *Description) readConfig() error {
	found, err := readJSON(d.system, d.Dir, "config.json", &d.config)
	if err != nil || !found {
		return err
	}
	c := &d.config
	if c.labels, err = orderLabels(c.ID2Label); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(d.Dir, "config.json"), err)
	}
	if len(c.Architectures) > 0 {
		d.note("architecture", "config.json", "%s", strings.Join(c.Architectures, ", "))
	}
	if c.isSigLIP() && c.Text.MaxPositions == 0 {
		c.Text.MaxPositions = 64 // of all published models, whose files may leave it out
	}
	return nil
}

// isSigLIP reports whether the model is a SigLIP or SigLIP2. Such a model was trained on texts padded to its number of positions, without a
// mask, so that the padding changes vectors.
func (c *config) isSigLIP() bool { return strings.HasPrefix(c.ModelType, "siglip") }

// read reads the configuration.
func (d *Description) read(o Options) error {
	if err := d.readConfig(); err != nil {
		return err
	}
	c := &d.config
	found, err := readJSON(d.system, d.Dir, "config_sentence_transformers.json", &d.prompts)
	if err != nil {
		return err
	}
	if found {
		d.notePrompts()
	}
	if err := d.readModules(o); err != nil {
		return err
	}
	if err := d.readGLiNER(); err != nil {
		return err
	}
	for _, module := range d.modules {
		if module.what != "" {
			d.note("module", module.where, "%s", module.what)
		}
	}
	d.findTask()
	if err := d.choosePrompt(o); err != nil {
		return err
	}
	if len(c.labels) > 0 && (d.Task == Classifying || d.Task == Reranking || d.Task == Tagging) {
		d.note("labels", "config.json", "%s", strings.Join(c.labels, ", "))
	}
	if c.ProblemType != "" {
		d.note("problem", "config.json", "%s", c.ProblemType)
	}
	if o.OwnTokenizer != nil && o.Tokenizer != "" {
		return errors.New("two tokenizers: set Options.Tokenizer or Options.OwnTokenizer, not both")
	}
	d.Tokenizer, d.chosen, d.own = o.Tokenizer, o.Tokenizer != "", o.OwnTokenizer
	switch {
	case d.own != nil:
		d.Tokenizer = d.Dir // where tokenizer_config.json may have the length
		defer func() { d.Tokenizer = ownTokenizer }()
		d.note("tokenizer", optionFile, "%s", ownTokenizer)
	case d.chosen:
		d.note("tokenizer", optionFile, "%s", d.Tokenizer)
	default:
		d.Tokenizer = d.Dir
		if d.static != nil {
			d.Tokenizer = filepath.Dir(d.Model)
		}
		for _, name := range []string{"tokenizer.json", "vocab.txt", "tokenizer.model", "sentencepiece.bpe.model", "spiece.model"} {
			if file := filepath.Join(d.Tokenizer, name); d.system.IsFile(file) {
				d.Tokenizer = file
				d.note("tokenizer", name, "%s", name)
				break
			}
		}
	}
	return d.findLength(o)
}

// ownTokenizer is the Description.Tokenizer of a tokenizer that no file has.
const ownTokenizer = "Options.OwnTokenizer"

// orderLabels turns {"0": "NEG", "1": "POS"} into a list.
func orderLabels(byID map[string]string) ([]string, error) {
	labels := make([]string, len(byID))
	for text, label := range byID {
		id, err := strconv.Atoi(text)
		if err != nil || id < 0 || id >= len(labels) {
			return nil, fmt.Errorf("id2label has %d labels, one of them with the id %q: want 0 to %d", len(labels), text, len(labels)-1)
		}
		labels[id] = label
	}
	return labels, nil
}

func (d *Description) notePrompts() {
	const file = "config_sentence_transformers.json"
	names := make([]string, 0, len(d.prompts.Prompts))
	for name, text := range d.prompts.Prompts {
		if text != "" {
			names = append(names, fmt.Sprintf("%s %q", name, text))
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		d.note("prompts", file, "%s", strings.Join(names, ", "))
	}
	if p := d.prompts.Default; p != nil {
		d.note("default prompt", file, "%s", *p)
	}
	if s := d.prompts.Similarity; s != nil {
		d.note("similarity", file, "%s", *s)
	}
}

// choosePrompt follows the options' default prompt.
func (d *Description) choosePrompt(o Options) error {
	switch name, p := o.DefaultPromptName, &d.prompts; {
	case o.DefaultPrompt != nil && name != "":
		return errors.New("two default prompts: set a text or a name, not both")
	case o.DefaultPrompt != nil:
		p.fallback = o.DefaultPrompt
	case name != "" && slices.Contains([]Task{Embedding, Sparse, MultiVector}, d.Task):
		text, ok := p.Prompts[name]
		if !ok {
			return fmt.Errorf("%s has no prompt %q: it has %s", d.Dir, name, listOr(sortedKeys(p.Prompts), "none"))
		}
		p.fallback = &text
	}
	if d.prompts.fallback != nil {
		d.note("default prompt", optionFile, "%q", *d.prompts.fallback)
	}
	return nil
}

// heads are the tasks of architectures, by how their names end.
var heads = []struct {
	ending string
	task   Task
}{
	{"ForSequenceClassification", Classifying}, {"ForTokenClassification", Tagging}, {"ForQuestionAnswering", Answering},
	{"ForMaskedLM", Filling}, {"ForPreTraining", Filling},
}

func (d *Description) findTask() {
	where := "modules.json"
	switch d.Task = Embedding; {
	case d.gliner != nil:
		where, d.Task = glinerFile, ZeroShotTag
	case slices.ContainsFunc(d.modules, func(m module) bool { return m.kind == "SpladePooling" }):
		d.Task = Sparse
	case slices.ContainsFunc(d.modules, func(m module) bool { return m.kind == "MultiVectorMask" }), d.prompts.Kind == "MultiVectorEncoder",
		len(d.modules) > 0 && !slices.ContainsFunc(d.modules, func(m module) bool { return m.kind == "Pooling" }):
		d.Task = MultiVector
	case slices.ContainsFunc(d.modules, func(m module) bool { return m.where != optionFile }):
	default:
		where = "config.json"
		if len(d.config.Architectures) == 0 {
			where = "the default"
		}
		for _, head := range heads {
			if slices.ContainsFunc(d.config.Architectures, func(a string) bool { return strings.HasSuffix(a, head.ending) }) {
				d.Task = head.task
			}
		}
		if d.Task == Filling && len(d.modules) > 0 { // Options.Pooling asks for vectors; models with other heads have none
			where, d.Task = optionFile, Embedding
		}
		if d.Task == Classifying && len(d.config.labels) <= 1 && d.config.ProblemType != "regression" {
			d.Task = Reranking
		}
	}
	d.note("task", where, "%s", d.Task)
}

// offsetTypes are the models whose positions are counted from beyond the padding's id.
var offsetTypes = []string{"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "data2vec-text", "ibert",
	"xlm_roberta"}

// firstPosition is the number of the first token's position.
func (c *config) firstPosition() int {
	if !slices.Contains(offsetTypes, c.ModelType) {
		return 0
	}
	if c.PadTokenID != nil {
		return int(*c.PadTokenID) + 1
	}
	return 2
}

// findLength finds how long sequences may be. What the tokenizer's own file says is known when that is opened.
func (d *Description) findLength(o Options) error {
	var limits tokenizerLimits
	system := d.tokenizerSystem()
	dir := d.Tokenizer
	if system.IsFile(dir) {
		dir = filepath.Dir(dir)
	}
	if _, err := readJSON(system, dir, "tokenizer_config.json", &limits); err != nil {
		return err
	}
	positions := cmp.Or(d.config.MaxPositions, d.config.Positions, d.config.Text.MaxPositions)
	if positions > 0 {
		positions -= d.config.firstPosition()
	}
	switch tokens := limits.tokens(); {
	case o.MaxLength > 0:
		d.MaxLength = o.MaxLength
		d.note("length", optionFile, "%d tokens", d.MaxLength)
	case d.static != nil:
		d.findStaticLength()
	case d.sbert.MaxLength > 0:
		d.MaxLength = d.sbert.MaxLength
		d.note("length", "sentence_bert_config.json", "%d tokens", d.MaxLength)
	case tokens > 0 && (positions <= 0 || tokens <= positions):
		d.MaxLength = tokens
		d.note("length", "tokenizer_config.json", "%d tokens", d.MaxLength)
	case positions > 0:
		d.MaxLength = positions
		d.note("length", "config.json", "%d tokens", d.MaxLength)
	}
	if positions > 0 && d.MaxLength > positions {
		return fmt.Errorf("%s: the requested length is %d tokens, but the model has %d positions (config.json): choose a smaller length",
			d.Dir, d.MaxLength, positions)
	}
	return nil
}

type tokenizerLimits struct {
	MaxLength *float64 `json:"model_max_length"`
}

func (l tokenizerLimits) tokens() int {
	const unlimited = 1 << 30 // more stands for no limit
	if l.MaxLength == nil || *l.MaxLength < 1 || *l.MaxLength >= unlimited {
		return 0
	}
	return int(*l.MaxLength)
}
