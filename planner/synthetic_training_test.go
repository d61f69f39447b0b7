package planner

// training describes one step of training: a forward pass, which leaves what the backward pass reads in the opposite
// order, the gradients, and an optimizer with state that lives all the time.
type training struct {
	Name       string
	Layers     int
	Tokens     int64 // rows of the activations: batch times sequence
	Width      int64 // of the hidden states
	Heads      int64
	Batches    int  // that one update sums the gradients of; 0 is 1
	Recompute  int  // only what enters every that many layers is kept; the backward pass computes the rest again
	LateUpdate bool // all gradients wait for the optimizer after the backward pass
	Convolve   bool // layers of a convolutional U: sizes fall and rise, and long connections reach across
	Ragged     bool // each layer has separate sizes, as with experts or images of many sizes
	Shuffle    int  // lives begin and end that many steps off, as in another order of the steps
	Seed       uint64
}

// trainings are steps of training of many kinds, with some 10,000 to 50,000 buffers.
var trainings = []training{
	{Name: "encoder, 48 layers", Layers: 48, Tokens: 2048, Width: 768, Heads: 12},
	{Name: "encoder, 200 layers, late update", Layers: 200, Tokens: 1024, Width: 512, Heads: 8, LateUpdate: true},
	{Name: "encoder, 200 layers, shuffled", Layers: 200, Tokens: 1024, Width: 512, Heads: 8, Ragged: true, Shuffle: 200},
	{Name: "ragged encoder, 120 layers", Layers: 120, Tokens: 4096, Width: 256, Heads: 4, Ragged: true},
	{Name: "recomputing encoder, 3 batches", Layers: 96, Tokens: 2048, Width: 1024, Heads: 16, Recompute: 8, Batches: 3},
	{Name: "recomputing encoder, ragged, shuffled", Layers: 200, Tokens: 2048, Width: 256, Heads: 4, Ragged: true, Shuffle: 20,
		Recompute: 10},
	{Name: "recomputing encoder, late update", Layers: 250, Tokens: 512, Width: 1024, Heads: 12, Ragged: true, Recompute: 16,
		LateUpdate: true},
	{Name: "4 batches, ragged, shuffled", Layers: 128, Tokens: 512, Width: 768, Heads: 12, Ragged: true, Batches: 4, Shuffle: 5},
	{Name: "3 batches, ragged, shuffled far", Layers: 96, Tokens: 1024, Width: 512, Heads: 8, Ragged: true, Shuffle: 100, Batches: 3},
	{Name: "convolutional U", Layers: 400, Tokens: 65536, Width: 16, Heads: 1, Convolve: true},
	{Name: "convolutional U, ragged, shuffled", Layers: 400, Tokens: 65536, Width: 16, Heads: 1, Convolve: true, Ragged: true, Shuffle: 8},
	{Name: "convolutional U, shuffled far", Layers: 400, Tokens: 65536, Width: 64, Heads: 1, Convolve: true, Ragged: true, Shuffle: 100},
}

// Problem returns the buffers of the training step.
func (c training) Problem() *Problem {
	s := &trainer{training: c, tape: newTape(c.Seed)}
	for layer := range c.Layers {
		s.widths = append(s.widths, s.width(layer))
		var weights []int
		for _, n := range s.matrices(layer) {
			weights = append(weights, s.op(n), s.beside(n), s.beside(n)) // with the two moments of Adam
		}
		s.weights = append(s.weights, weights)
		s.gradients = append(s.gradients, make([]int, len(weights)/3))
		for i := range s.gradients[layer] {
			s.gradients[layer][i] = none
		}
	}
	for batch := range max(1, c.Batches) {
		s.pass(batch == max(1, c.Batches)-1)
	}
	if c.LateUpdate {
		for layer := range c.Layers {
			s.update(layer)
		}
	}
	for _, weights := range s.weights {
		s.read(weights...)
	}
	s.shuffle()
	return s.problem()
}

const none = -1

// trainer writes the tape of a training step. Weights and gradients are kept by layer.
type trainer struct {
	training
	*tape
	widths    []shape
	weights   [][]int
	gradients [][]int
}

// shape is the size of a layer's activations.
type shape struct{ rows, width int64 }

func (s shape) bytes() int64 { return 4 * s.rows * s.width }

// width returns the shape of a layer.
func (s *trainer) width(layer int) shape {
	w := shape{s.Tokens, s.Width}
	if s.Convolve { // each stage has a quarter of the rows and twice the width of the one before
		stage := min(layer, s.Layers-1-layer) * 8 / max(1, s.Layers)
		w = shape{max(1, s.Tokens>>(2*stage)), s.Width << stage}
	}
	if s.Ragged {
		w.rows = max(1, w.rows*(64+s.rnd.Int64N(128))/128)
	}
	return w
}

// matrices returns the bytes of a layer's weights.
func (s *trainer) matrices(layer int) []int64 {
	w := 4 * s.widths[layer].width
	if s.Convolve {
		return []int64{9 * w * w / 4, w, 9 * w * w / 4, w}
	}
	return []int64{w * w / 4, w, w * w / 4, w, w * w / 4, w, w * w / 4, w, w, w, w * w, 4 * w, w * w, w}
}

// kept is what the backward pass of a layer reads.
type kept struct {
	input int
	saved []int
}

// pass runs one batch forwards and backwards.
func (s *trainer) pass(last bool) {
	x := s.op(s.widths[0].bytes())
	layers := make([]kept, s.Layers)
	across := make([]int, s.Layers) // outputs that the other half of a U reads
	segment := max(1, s.Recompute)
	for layer := range s.Layers {
		layers[layer].input = x
		if s.Convolve && layer > s.Layers/2 {
			x = s.op(s.widths[layer].bytes(), x, across[s.Layers-1-layer])
		}
		var saved []int
		x, saved = s.forward(layer, x)
		across[layer] = x
		if s.Recompute == 0 {
			layers[layer].saved = saved
		}
	}
	loss := s.op(4, x)
	grad := s.op(s.widths[s.Layers-1].bytes(), loss, x)
	for end := s.Layers; end > 0; end -= min(end, segment) {
		begin := max(0, end-segment)
		if s.Recompute > 0 {
			x := layers[begin].input
			for layer := begin; layer < end; layer++ {
				layers[layer].input = x
				x, layers[layer].saved = s.forward(layer, x)
			}
		}
		for layer := end - 1; layer >= begin; layer-- {
			grad = s.backward(layer, layers[layer], grad)
			if last && !s.LateUpdate {
				s.update(layer)
			}
		}
	}
}

// forward runs one layer. It returns the output and what the backward pass wants to keep.
func (s *trainer) forward(layer, x int) (y int, saved []int) {
	w := s.widths[layer]
	n := w.bytes()
	weights := s.weights[layer]
	keep := func(id int) int { saved = append(saved, id); return id }
	if s.Convolve {
		for half := range 2 {
			column := s.tape.op(n*9/4, x)
			c := keep(s.op(n, column, weights[6*half]))
			keep(s.beside(8 * w.width))
			norm := s.op(n, c, weights[6*half+3])
			x = keep(s.op(n, norm))
		}
		return x, saved
	}
	norm := keep(s.op(n, x))
	keep(s.beside(8 * w.rows))
	var qkv [3]int
	for i := range qkv {
		qkv[i] = keep(s.op(n, s.op(n, norm, weights[6*i]), weights[6*i+3]))
	}
	square := max(4, w.rows*min(w.rows, 512)*s.Heads)
	scores := s.op(4*square, qkv[0], qkv[1])
	probabilities := keep(s.op(4*square, scores))
	dropped := keep(s.op(4*square, probabilities))
	keep(s.beside(square))
	context := keep(s.op(n, dropped, qkv[2]))
	out := s.op(n, context, weights[18])
	out = s.op(n, out, weights[21])
	keep(s.beside(w.rows * w.width))
	x = keep(s.op(n, out, x))
	norm = keep(s.op(n, x, weights[24]))
	keep(s.beside(8 * w.rows))
	wide := keep(s.op(4*n, norm, weights[30]))
	gelu := keep(s.op(4*n, wide))
	out = s.op(n, gelu, weights[36])
	keep(s.beside(w.rows * w.width))
	return keep(s.op(n, out, x)), saved
}

// backward runs a layer in the opposite direction and returns the gradient of its input.
func (s *trainer) backward(layer int, k kept, grad int) int {
	weights, n := s.weights[layer], s.widths[layer].bytes()
	gradients := s.gradients[layer]
	through := grad
	for i := len(k.saved) - 1; i >= 0; i-- {
		saved := k.saved[i]
		size := s.buffers[saved].Size
		through = s.op(max(size, 4), through, saved)
		if s.rnd.IntN(4) == 0 {
			s.beside(size / 2) // scratch
		}
		if w := i * len(gradients) / len(k.saved); (i+1)*len(gradients)/len(k.saved) > w {
			fresh := s.op(s.buffers[weights[3*w]].Size, through, saved, weights[3*w])
			if gradients[w] != none {
				fresh = s.op(s.buffers[fresh].Size, fresh, gradients[w])
			}
			gradients[w] = fresh
		}
	}
	s.read(k.input)
	return s.op(n, through, grad)
}

// update runs Adam on the weights of a layer, with two temporaries for each.
func (s *trainer) update(layer int) {
	for i, g := range s.gradients[layer] {
		size := s.buffers[g].Size
		scaled := s.op(size, g)
		step := s.op(size, scaled, s.weights[layer][3*i+1], s.weights[layer][3*i+2])
		s.op(4, step, s.weights[layer][3*i])
	}
}

// shuffle moves the ends of lives.
func (s *trainer) shuffle() {
	if s.Shuffle == 0 {
		return
	}
	for i := range s.buffers {
		b := &s.buffers[i]
		if b.First > 0 {
			b.First = max(0, b.First-s.rnd.IntN(s.Shuffle))
		}
		b.Last += s.rnd.IntN(s.Shuffle)
	}
}
