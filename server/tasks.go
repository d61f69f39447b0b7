package server

import (
	"reflect"

	"github.com/rlxc/rlxc/pipeline"
)

// oneOrMore are the results of texts: one alone for a text, a list for a list of texts.
type oneOrMore[T any] struct {
	list []T
	one  bool
}

// stream implements streamed.
func (a oneOrMore[T]) stream(e *encoder) error {
	if a.one {
		return e.value(reflect.ValueOf(a.list[0]))
	}
	return e.value(reflect.ValueOf(append([]T{}, a.list...))) // none are [], not null
}

// element is the type of a result.
func (oneOrMore[T]) element() reflect.Type { return reflect.TypeFor[T]() }

// hfClassify answers with a list for one text, too.
func (c *call) hfClassify(q *teiPredictRequest) (oneOrMore[[]pipeline.Score], error) {
	q.Inputs.one = false
	return c.teiPredict(q)
}

// hfTexts are the fields that the requests of Hugging Face's tasks share.
type hfTexts struct {
	Model   string    `json:"model"`
	Options hfOptions `json:"options"`
}

type hfZeroShotRequest struct {
	hfTexts
	Inputs     pairs `json:"inputs" required:"yes"`
	Parameters struct {
		Labels     []string `json:"candidate_labels" required:"yes" some:"yes"`
		Template   string   `json:"hypothesis_template" pattern:"^$|\\{\\}"`
		MultiLabel bool     `json:"multi_label"`
		Truncate   cutting  `json:"truncate"`
	} `json:"parameters" required:"yes"`
}

func (c *call) hfZeroShot(q *hfZeroShotRequest) (a oneOrMore[[]pipeline.Score], err error) {
	m, err := c.text(q.Model, pipeline.ZeroShot)
	if err != nil {
		return a, err
	}
	var texts []string
	for _, in := range q.Inputs.list {
		texts = append(texts, in...)
	}
	if err := c.check("inputs", len(texts)); err != nil {
		return a, err
	}
	p := q.Parameters
	cut, _ := c.lengths(p.Truncate.of("inputs", ""))
	o := pipeline.ZeroShotOptions{Template: p.Template, MultiLabel: p.MultiLabel, Truncated: cut}
	scores, err := m.ZeroShot(c.ctx, texts, p.Labels, o)
	return oneOrMore[[]pipeline.Score]{scores, q.Inputs.one && len(texts) == 1}, c.explain(err, m)
}

type hfTagRequest struct {
	hfTexts
	Inputs     inputs `json:"inputs" required:"yes"`
	Parameters struct {
		Aggregation pipeline.Aggregation `json:"aggregation_strategy" enum:"none,simple,first,average,max"`
		Ignore      []string             `json:"ignore_labels"`
		Stride      *int                 `json:"stride" least:"1"`
		Truncate    ignored              `json:"truncate"`
	} `json:"parameters"`
}

// An hfTagZeroShotRequest names labels. Of its parameters the first has the name that zero-shot classification has for it, the others
// those of the package gliner.
type hfTagZeroShotRequest struct {
	hfTexts
	Inputs     inputs `json:"inputs" required:"yes"`
	Parameters struct {
		Labels     []string `json:"candidate_labels" required:"yes" each:"some"`
		Threshold  float64  `json:"threshold"`
		Flat       *bool    `json:"flat_ner"`
		MultiLabel bool     `json:"multi_label"`
		Truncate   ignored  `json:"truncate"`
	} `json:"parameters" required:"yes"`
}

// An hfEntity has positions in characters.
type hfEntity struct {
	Group  string  `json:"entity_group,omitempty"`
	Entity string  `json:"entity,omitempty"` // of a token
	Score  float64 `json:"score"`
	Word   string  `json:"word"`
	Start  int     `json:"start"`
	End    int     `json:"end"`
}

func (c *call) hfTag(q *hfTagRequest) (a oneOrMore[listOf[hfEntity]], err error) {
	m, err := c.text(q.Model, pipeline.Tagging)
	if err != nil {
		return a, err
	}
	if m.Task == pipeline.ZeroShotTag {
		return a, invalid("parameters.candidate_labels", "it is missing: this model requires labels")
	}
	texts, err := c.texts(m, "inputs", q.Inputs)
	if err != nil {
		return a, err
	}
	p := q.Parameters
	list, err := m.Tag(c.ctx, texts, pipeline.TagOptions{Aggregation: p.Aggregation, Ignore: p.Ignore, Stride: number(p.Stride)})
	if err != nil {
		return a, c.explain(err, m)
	}
	return hfEntities(q.Inputs, list, p.Aggregation), nil
}

func (c *call) hfTagZeroShot(q *hfTagZeroShotRequest) (a oneOrMore[listOf[hfEntity]], err error) {
	m, err := c.text(q.Model, pipeline.ZeroShotTag)
	if err != nil {
		return a, err
	}
	texts, err := c.texts(m, "inputs", q.Inputs)
	if err != nil {
		return a, err
	}
	p := q.Parameters
	list, err := m.TagZeroShot(c.ctx, texts, p.Labels, pipeline.TagZeroShotOptions{Threshold: p.Threshold, MultiLabel: p.MultiLabel,
		Nested: p.Flat != nil && !*p.Flat})
	return hfEntities(q.Inputs, list, ""), c.explain(err, m)
}

func hfEntities(of inputs, list [][]pipeline.Entity, how pipeline.Aggregation) oneOrMore[listOf[hfEntity]] {
	a := oneOrMore[listOf[hfEntity]]{one: of.one}
	for _, entities := range list {
		a.list = append(a.list, made(entities, func(e pipeline.Entity) hfEntity {
			x := hfEntity{Group: e.Label, Score: e.Score, Word: e.Text, Start: e.CharStart, End: e.CharEnd}
			if how == pipeline.AggregateNone {
				x.Group, x.Entity = "", e.Label
			}
			return x
		}))
	}
	return a
}

type hfAnswerRequest struct {
	hfTexts
	Inputs struct {
		Question string `json:"question" required:"yes"`
		Context  string `json:"context" required:"yes"`
	} `json:"inputs" required:"yes"`
	Parameters struct {
		TopK      *int `json:"top_k" least:"1"`
		NoAnswer  bool `json:"handle_impossible_answer"`
		MaxTokens *int `json:"max_answer_len" least:"1"`
		Length    *int `json:"max_seq_len" least:"1"`
		Stride    *int `json:"doc_stride" least:"1"`
	} `json:"parameters"`
}

type hfAnswer struct {
	Answer string  `json:"answer"`
	Score  float64 `json:"score"`
	Start  int     `json:"start"` // in characters
	End    int     `json:"end"`
}

func (c *call) hfAnswer(q *hfAnswerRequest) (a oneOrMore[hfAnswer], err error) {
	m, err := c.text(q.Model, pipeline.Answering)
	if err != nil {
		return a, err
	}
	p := q.Parameters
	answers, err := m.Answer(c.ctx, []pipeline.Question{{Question: q.Inputs.Question, Context: q.Inputs.Context}},
		pipeline.AnswerOptions{TopK: number(p.TopK), NoAnswer: p.NoAnswer, MaxTokens: number(p.MaxTokens), Length: number(p.Length),
			Stride: number(p.Stride)})
	if err != nil {
		return a, c.explain(err, m)
	}
	a.one = number(p.TopK) < 2 && len(answers[0]) > 0
	for _, x := range answers[0] {
		a.list = append(a.list, hfAnswer{x.Text, x.Score, x.CharStart, x.CharEnd})
	}
	return a, nil
}

type hfFillRequest struct {
	hfTexts
	Inputs     inputs `json:"inputs" required:"yes"`
	Parameters struct {
		TopK     *int     `json:"top_k" least:"1"`
		Targets  []string `json:"targets" some:"yes"`
		Truncate cutting  `json:"truncate"`
	} `json:"parameters"`
}

type hfFilled struct {
	Score    float64 `json:"score"`
	Token    int64   `json:"token"`
	Word     string  `json:"token_str"`
	Sequence string  `json:"sequence"`
}

// hfFill answers with a list for each text, or with one for each mask of a text that has several.
func (c *call) hfFill(q *hfFillRequest) (a oneOrMore[oneOrMore[listOf[hfFilled]]], err error) {
	m, err := c.text(q.Model, pipeline.Filling)
	if err != nil {
		return a, err
	}
	texts, err := c.texts(m, "inputs", q.Inputs)
	if err != nil {
		return a, err
	}
	cut, _ := c.lengths(q.Parameters.Truncate.of("inputs", ""))
	list, err := m.Fill(c.ctx, texts, pipeline.FillOptions{TopK: number(q.Parameters.TopK), Targets: q.Parameters.Targets, Truncated: cut})
	if err != nil {
		return a, c.explain(err, m)
	}
	a.one = q.Inputs.one
	for _, masks := range list {
		of := oneOrMore[listOf[hfFilled]]{one: len(masks) == 1}
		for _, words := range masks {
			of.list = append(of.list, made(words, func(w pipeline.Filled) hfFilled { return hfFilled{w.Score, w.ID, w.Token, w.Text} }))
		}
		a.list = append(a.list, of)
	}
	return a, nil
}
