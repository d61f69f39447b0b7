package pipeline

import (
	"cmp"
	"container/heap"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// leastLength is the least number by which PyTorch divides a vector.
const leastLength = 1e-12

// Normalize scales a vector to length 1 (Euclidean). It does not change a vector of zeros.
func Normalize(v []float32) {
	if length := math.Sqrt(dot(v, v)); length > 0 {
		length = max(length, leastLength)
		for i := range v {
			v[i] = float32(float64(v[i]) / length)
		}
	}
}

// dot is the sum of the products of two vectors of one size.
func dot(a, b []float32) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
		s2 += float64(a[i+2]) * float64(b[i+2])
		s3 += float64(a[i+3]) * float64(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return s0 + s1 + s2 + s3
}

// cosine is the cosine of the angle between two vectors, 0 if one is of zeros.
func cosine(a, b []float32) float64 {
	if d := math.Sqrt(dot(a, a) * dot(b, b)); d > 0 {
		return dot(a, b) / d
	}
	return 0
}

// A Similarity compares two vectors: larger values are more similar. The names are those of sentence-transformers.
type Similarity string

// The similarities.
const (
	Cosine    Similarity = "cosine"
	Dot       Similarity = "dot"
	Euclidean Similarity = "euclidean" // the negative distance
	Manhattan Similarity = "manhattan" // the negative sum of absolute differences
)

// Of compares two vectors of the same size. It panics if s is unknown.
func (s Similarity) Of(a, b []float32) float64 { return similarities[s](a, b) }

var similarities = map[Similarity]func(a, b []float32) float64{
	Cosine: cosine,
	Dot:    dot,
	Euclidean: func(a, b []float32) float64 {
		s := 0.0
		for i := range a {
			s += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
		}
		return -math.Sqrt(s)
	},
	Manhattan: func(a, b []float32) float64 {
		s := 0.0
		for i := range a {
			s += math.Abs(float64(a[i]) - float64(b[i]))
		}
		return -s
	},
}

// Similarity returns the similarity in the model's files, or Cosine if they name none.
func (m *Model) Similarity() Similarity {
	if s := m.prompts.Similarity; s != nil && similarities[*s] != nil {
		return *s
	}
	return Cosine
}

// A Hit is the index of a vector, with its score.
type Hit struct {
	Index int
	Score float64
}

// hits is a heap with the worst hit first.
type hits []Hit

func (h hits) Len() int           { return len(h) }
func (h hits) Less(i, j int) bool { return better(h[j], h[i]) < 0 }
func (h hits) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *hits) Push(x any)        { *h = append(*h, x.(Hit)) }
func (h *hits) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// better orders hits: by score, the first of equal ones first.
func better(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Index, b.Index))
}

// TopK returns the k vectors that are most similar to a query, the most similar first.
func TopK(query []float32, vectors [][]float32, k int, s Similarity) []Hit {
	best := hits{}
	for i, v := range vectors {
		h := Hit{i, s.Of(query, v)}
		switch {
		case len(best) < k:
			heap.Push(&best, h)
		case k > 0 && better(h, best[0]) < 0:
			best[0] = h
			heap.Fix(&best, 0)
		}
	}
	slices.SortFunc(best, better)
	return best
}

// A Precision is how Quantize stores the numbers of vectors. The names are those of sentence-transformers.
type Precision string

// The precisions.
const (
	Float32 Precision = "float32"
	Float16 Precision = "float16"
	Int8    Precision = "int8"    // 256 steps over the range of each column
	Uint8   Precision = "uint8"   // the same from 0 on
	Binary  Precision = "binary"  // a bit for each number, 1 if it is above 0: eight in a byte, the first one highest, less 128
	Ubinary Precision = "ubinary" // the same without an offset
)

// Precisions lists all precisions.
func Precisions() []Precision { return sortedKeys(precisions) }

var precisions = map[Precision]func(vectors [][]float32, ranges *Ranges) *tensor.Tensor{
	Float32: func(v [][]float32, _ *Ranges) *tensor.Tensor { return matrix(tensor.F32, v) },
	Float16: func(v [][]float32, _ *Ranges) *tensor.Tensor { return matrix(tensor.F16, v) },
	Int8:    func(v [][]float32, r *Ranges) *tensor.Tensor { return buckets(tensor.I8, v, r, -128) },
	Uint8:   func(v [][]float32, r *Ranges) *tensor.Tensor { return buckets(tensor.U8, v, r, 0) },
	Binary:  func(v [][]float32, _ *Ranges) *tensor.Tensor { return bits(tensor.I8, v, -128) },
	Ubinary: func(v [][]float32, _ *Ranges) *tensor.Tensor { return bits(tensor.U8, v, 0) },
}

// Ranges are the smallest and the largest number at each position of vectors.
type Ranges struct{ Low, High []float32 }

// RangesOf finds the ranges of vectors, for Quantize.
func RangesOf(vectors [][]float32) *Ranges {
	r := &Ranges{}
	for i, v := range vectors {
		if i == 0 {
			r.Low, r.High = slices.Clone(v), slices.Clone(v)
		}
		for k, x := range v {
			r.Low[k], r.High[k] = min(r.Low[k], x), max(r.High[k], x)
		}
	}
	return r
}

// Quantize stores vectors with fewer bits, as sentence-transformers' quantize_embeddings does. Int8 and Uint8 use ranges, or the ranges
// of the vectors themselves if it is nil. The tensor is [vectors, size], or [vectors, ⌈size/8⌉] for bits. Quantize fails if p is unknown.
func Quantize(vectors [][]float32, p Precision, ranges *Ranges) (*tensor.Tensor, error) {
	if err := oneOf("precision", p, Precisions()); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	if ranges == nil {
		ranges = RangesOf(vectors)
	}
	return precisions[p](vectors, ranges), nil
}

func sizeOf(vectors [][]float32) int {
	if len(vectors) == 0 {
		return 0
	}
	return len(vectors[0])
}

func matrix(d tensor.DType, vectors [][]float32) *tensor.Tensor {
	size := sizeOf(vectors)
	t := tensor.New(d, len(vectors), size)
	for i, v := range vectors {
		for k, x := range v {
			t.SetFloat64(i*size+k, float64(x))
		}
	}
	return t
}

func buckets(d tensor.DType, vectors [][]float32, r *Ranges, offset int64) *tensor.Tensor {
	size := sizeOf(vectors)
	t := tensor.New(d, len(vectors), size)
	for i, v := range vectors {
		for k, x := range v {
			step := (r.High[k] - r.Low[k]) / 255
			if step == 0 {
				step = 1
			}
			q := math.Floor(float64((x - r.Low[k]) / step))
			t.SetInt64(i*size+k, int64(min(max(q, 0), 255))+offset)
		}
	}
	return t
}

func bits(d tensor.DType, vectors [][]float32, offset int64) *tensor.Tensor {
	size := (sizeOf(vectors) + 7) / 8
	t := tensor.New(d, len(vectors), size)
	for i, v := range vectors {
		for k := range size {
			b := int64(0)
			for j, x := range v[8*k : min(8*k+8, len(v))] {
				if x > 0 {
					b |= 0x80 >> j
				}
			}
			t.SetInt64(i*size+k, b+offset)
		}
	}
	return t
}

// AppendBase64 appends a vector as base64 of its numbers, float32 in little-endian order. Many services use this form.
func AppendBase64(text []byte, v []float32) []byte {
	const most = 96 // a multiple of three: only what is last is padded
	var data [4 * most]byte
	for part := range slices.Chunk(v, most) {
		for i, x := range part {
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(x))
		}
		text = base64.StdEncoding.AppendEncode(text, data[:4*len(part)])
	}
	return text
}
