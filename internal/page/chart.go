package page

import (
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"unicode/utf8"
)

// A Chart is boxes over time, which runs to the right: x and widths are shares of all of it, y and heights are points.
type Chart struct {
	Caption string
	Kinds   []Kind // legend: one entry for each colour of boxes
	Left    []Tick // labels of the left axis; At is in points from the top
	Below   []Tick // labels below the chart; At is a share of the width
	Marks   []Mark
	Curves  []Curve
	Boxes   []Box
	Height  float64 // points, without the labels below
}

// A Kind is the meaning of a colour.
type Kind struct{ Name, Fill string }

// A Tick is text on an axis.
type Tick struct {
	At   float64
	Text string
}

// A Mark is a vertical line through all of the chart, such as the step at a peak.
type Mark struct {
	At    float64 // share of the width
	About string  // text that appears while the pointer is on the line
}

// A Curve is a line through points, which are shares of the width and of the height, and one that it stays below.
type Curve struct {
	Points      [][2]float64
	Bound       float64 // share of the height at which a second, level line is drawn
	Top, Height float64 // place of the curve in the chart, in points
	About       string
}

// A Box is a thing that lasts.
type Box struct {
	X, Y, W, H   float64
	Fill         string // colour; "none" for a frame around other boxes
	Class        string // CSS class
	Label, About string // text on the box, and text that appears while the pointer is on it
}

// kinds are the operations of encoders that take most time or memory, in the order in which they get colours: the first differ most.
var kinds = []string{"matmul", "attention", "layernorm", "embedding", "map", "softmax", "add", "conv", "onnx.QMatMul", "matmul_nbits",
	"onnx.DynamicQuantizeLinear", "concat", "gather", "copy", "chain", "rotary", "mul", "qconv", "qattention", "qlayernorm", "qembedding",
	"quantize", "dequantize", "append"}

// Colour returns the colour of an operation, which is the same on every page. Operations that are not in kinds share 97 colours.
func Colour(kind string) string {
	n := slices.Index(kinds, kind)
	if n < 0 {
		n = len(kinds) + int(crc32.ChecksumIEEE([]byte(kind))%97)
	}
	const goldenAngle = 137.508 // degrees: neighbouring numbers differ strongly
	return fmt.Sprintf("hsl(%.0f 55%% %d%%)", math.Mod(goldenAngle*float64(n)+210, 360), 66+n/8%3*6)
}

const (
	tickHeight  = 16 // points for the labels below the chart
	labelHeight = 12 // minimum height in points of a box that shows its label
)

// Widths in points. style.css has the sizes that they follow from: 1rem is 15 points, and lines of text are 11 points high.
const (
	narrowScreen = 390     // a phone's
	wideScreen   = 52 * 16 // smallest screen for which style.css shows ticks of class wide
	margins      = 62      // body, panel and its border, on both sides
	narrowAxis   = 71      // left axis and the gap beside it, on narrow screens
	wideAxis     = 75      // likewise on others
	digitWidth   = 7       // most that a character of a tick takes
	tickGap      = 8       // between two ticks
)

// stride returns base, or the least of its doubles for which every so many ticks, from the first, have room in a chart of that width.
func stride(ticks []Tick, width float64, base int) int {
	every := base
	for every < len(ticks) && !haveRoom(ticks, width, every) {
		every *= 2
	}
	return every
}

// haveRoom reports whether ticks 0, every, 2·every, … are beside each other.
func haveRoom(ticks []Tick, width float64, every int) bool {
	_, end := span(ticks, 0, width)
	for i := every; i < len(ticks); i += every {
		from, to := span(ticks, i, width)
		if from < end+tickGap {
			return false
		}
		end = to
	}
	return true
}

// span returns where the text of tick i begins and ends, in points from the left.
func span(ticks []Tick, i int, width float64) (from, to float64) {
	size := digitWidth * float64(utf8.RuneCountInString(ticks[i].Text))
	at := ticks[i].At * width
	switch anchor(ticks, i) {
	case "start":
		return at, at + size
	case "end":
		return at - size, at
	}
	return at - size/2, at + size/2
}

// anchor returns the point of tick i's text that is at the tick: texts of the first and last tick stay inside of the chart.
func anchor(ticks []Tick, i int) string {
	switch i {
	case 0:
		return "start"
	case len(ticks) - 1:
		return "end"
	}
	return "middle"
}

// below writes the ticks that have room, and with class wide those that have room on wide screens alone.
func (r *Report) below(c *Chart, y float64) {
	narrow, wide := float64(narrowScreen-margins), float64(wideScreen-margins)
	if len(c.Left) > 0 {
		narrow, wide = narrow-narrowAxis, wide-wideAxis
	}
	every := stride(c.Below, wide, 1)
	everyNarrow := stride(c.Below, narrow, every)
	for i := 0; i < len(c.Below); i += every {
		class := "tick"
		if i%everyNarrow != 0 {
			class = "tick wide"
		}
		t := c.Below[i]
		r.Put(`<text class="%s" x="%.3f%%" y="%.1f" text-anchor="%s">%s</text>`, class, 100*t.At, y, anchor(c.Below, i), t.Text)
	}
}

// Chart writes a chart.
func (r *Report) Chart(c *Chart) {
	r.Put("<figure class=\"panel chart\">\n<div class=\"head\"><figcaption>%s</figcaption><span><button data-zoom=\"2\">Wider</button> "+
		"<button data-zoom=\"0.5\">Narrower</button></span></div>\n", c.Caption)
	if len(c.Kinds) > 0 {
		r.Put("<div class=\"chips\">")
		for _, k := range c.Kinds {
			if k.Name == "" {
				continue
			}
			r.Put(`<span class="kind"><svg><rect width="100%%" height="100%%" fill="%s"/></svg>%s</span>`, k.Fill, k.Name)
		}
		r.Put("</div>\n")
	}
	height := c.Height + tickHeight
	if len(c.Left) > 0 {
		r.Put("<svg class=\"axis\" height=\"%.0f\">", height)
		for _, t := range c.Left {
			r.Put(`<text class="tick" x="100%%" y="%.1f" text-anchor="end">%s</text>`, t.At+4, t.Text)
		}
		r.Put("</svg>\n")
	}
	r.Put("<div class=\"scroll\"><svg width=\"100%%\" height=\"%.0f\">\n", height)
	for _, t := range c.Left {
		r.Put(`<line class="grid" x2="100%%" y1="%.1f" y2="%.1f"/>`, t.At, t.At)
	}
	r.below(c, height-3)
	for _, curve := range c.Curves {
		r.curve(&curve)
	}
	for _, b := range c.Boxes {
		r.box(&b)
	}
	for _, m := range c.Marks {
		r.Put(`<line class="mark" x1="%.3f%%" x2="%.3f%%" y2="%.1f"><title>%s</title></line>`, 100*m.At, 100*m.At, c.Height, m.About)
	}
	r.Put("</svg></div>\n<output class=\"soft\">Click a box to see what it is.</output>\n</figure>\n")
}

func (r *Report) curve(c *Curve) {
	r.Put(`<svg y="%.1f" height="%.1f" width="100%%" viewBox="0 0 1 1" preserveAspectRatio="none"><title>%s</title><polyline points="`,
		c.Top, c.Height, c.About)
	for _, p := range c.Points {
		r.Put("%.5f,%.5f ", p[0], 1-p[1])
	}
	bound := c.Top + (1-c.Bound)*c.Height
	r.Put("\"/></svg>\n<line class=\"bound\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", bound, bound)
}

func (r *Report) box(b *Box) {
	r.Put(`<svg x="%.4f%%" y="%.2f" width="%.4f%%" height="%.2f" class="%s"><title>%s</title><rect width="100%%" height="100%%"`,
		100*b.X, b.Y,
		100*b.W, b.H, b.Class, b.About)
	if b.Fill != "" {
		r.Put(` fill="%s"/>`, b.Fill)
	} else {
		r.Put(` class="frame"/>`)
	}
	if b.Label != "" && b.H >= labelHeight {
		r.Put(`<text x="4" y="%.1f">%s</text>`, min(b.H/2+4, 15), b.Label)
	}
	r.Put("</svg>\n")
}
