package kernel

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// Level names what a CPU offers: a row of the architecture's levelNames. Levels are ordered: a machine of one level runs the
// kernels of all levels below it.
type Level uint8

// Generic is plain Go, the lowest level everywhere.
const Generic Level = 0

// String returns the name that [Select] takes.
func (l Level) String() string {
	if l < numLevels {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// variants says what each level adds: a function that replaces, in a Set which starts as a copy of the level below,
// the kernels that the level does better. The files of an architecture fill in its rows.
var variants = [numLevels]func(*Set){Generic: genericVariants}

// sets holds one Set for each level that this machine can run.
var sets = sync.OnceValue(func() []*Set {
	var all []*Set
	set := new(Set)
	for level := Generic; level <= machineLevel(); level++ {
		if add := variants[level]; add != nil {
			add(set)
		}
		set.Level = level
		copied := *set
		all = append(all, &copied)
	}
	return all
})

// fewProcessors is on how many of a machine products of float32 by parts were measured to be faster; on 16, FMA was.
const fewProcessors = 4

// native is the best level of this machine, with its caches.
var native = sync.OnceValue(func() *Set {
	all := sets()
	s := *all[len(all)-1]
	s.caches = machineCaches()
	if runtime.NumCPU() > fewProcessors {
		s.bf16x3 = bf16x3Funcs{}
	}
	return &s
})

// Select returns the kernels of the named level, or of the best level of this machine if name is empty. A named level has the caches
// that are usual for it, so that its plans are the same on every machine. A name that is unknown, or a level that this machine (or this
// build) lacks, is an error that lists what there is.
func Select(name string) (*Set, error) {
	s, err := Describe(name)
	if err == nil {
		err = s.Lacks
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Describe is Select, but a level that this machine lacks has a Set too, by which weights are packed and memory is planned for
// another machine. Its Lacks says why it runs nothing.
func Describe(name string) (*Set, error) {
	if name == "" {
		return native(), nil
	}
	all := sets()
	for level, known := range levelNames {
		switch {
		case !strings.EqualFold(name, known):
			continue
		case level < len(all):
			return all[level], nil
		}
		err := fmt.Errorf("CPU level %q is above what this machine and build offer: have %s", name,
			strings.Join(levelNames[:len(all)], ", "))
		if variants[level] == nil {
			return nil, err // not of this build
		}
		s := all[len(all)-1].as(Level(level))
		s.Lacks = err
		return s, nil
	}
	return nil, fmt.Errorf("unknown CPU level %q: want one of %s", name, strings.Join(levelNames[:], ", "))
}

// as returns the shapes of another level's kernels, beside the functions of s, which packing calls.
func (s *Set) as(level Level) *Set {
	of := new(Set)
	for l := Generic; l <= level; l++ {
		if add := variants[l]; add != nil {
			add(of)
		}
	}
	c := *s
	c.Level = level
	c.gemm, c.gemmS8, c.gemmBF16, c.pairsBF16, c.bf16x3 = of.gemm, of.gemmS8, of.gemmBF16, of.pairsBF16, of.bf16x3
	c.attention, c.q4, c.q8, c.depthwiseWords, c.caches = of.attention, of.q4, of.q8, of.depthwiseWords, of.caches
	return &c
}

// Set is the kernels of one level. The zero value is of no use; [Select] returns one.
type Set struct {
	Level Level
	Lacks error `optional:"where the machine has the level"` // why this machine cannot run the kernels, of a Set that Describe returns

	caches cacheSizes

	gemm      gemmTile // float32
	gemmS8    gemmTile // four unsigned bytes of A against four signed of B
	gemmBF16  gemmTile // pairs of bfloat16
	pairsBF16 gemmTile // the same, for a B that is not packed: it is not deep

	bf16x3 bf16x3Funcs `optional:"where floats are as good"`

	attention attentionTile

	quantize  quantizeFuncs
	transpose transposeFunc
	copyRows  rowsFunc
	convert   convertFuncs
	unary     [NumUnary]unaryFunc
	binary    [NumBinary][numBinaryForms]binaryFunc
	reduce    [NumReduce]reduceFunc
	dot       dotFunc
	softmax   rowsFunc
	layerNorm normFunc
	rmsNorm   normFunc
	depthwise depthwiseFunc

	top topKernel `optional:"where lines are selected from one at a time"`

	depthwiseWords depthwiseWords `optional:"where floats are as good"`

	winograd winogradFuncs

	softmaxStep softmaxStepFunc
	pairBF16    binaryFunc
	roundBF16   func(dst *uint16, src *float32, n int) // a multiple of 32

	q4, q8         blockFuncs // weights in blocks with separate scales
	quantizeBlocks quantizeBlocksFunc

	peaks [numPeaks]peakLoop
}

// cacheSizes are the data caches that one core sees, in bytes.
type cacheSizes struct{ l1, l2 int }

// L2 is the size in bytes of the second-level cache of a core.
func (s *Set) L2() int { return s.caches.l2 }

// defaultCaches are those of a level without others, and are taken where the machine does not report its caches.
var defaultCaches = cacheSizes{l1: 32 << 10, l2: 512 << 10}

// genericVariants sets every kernel to its plain Go form.
func genericVariants(s *Set) {
	s.caches = defaultCaches
	s.gemm = tileGeneric(sumsF32, addFloats)
	s.gemmS8 = tileGeneric(sumsS8, addWords)
	s.gemmBF16 = tileGeneric(sumsBF16, addFloats)
	s.pairsBF16 = s.gemmBF16
	s.quantize = quantizeGeneric
	s.pairBF16 = pairBF16Generic
	s.depthwise = depthwiseGeneric
	s.winograd = winogradFuncs{winogradInputGeneric, winogradOutputGeneric, winogradWeightsGeneric}
	s.roundBF16 = convertGeneric.toBF16
	s.q4 = blockFuncs{decode: decodeQ4Generic, unpack: unpackQ4Generic, tile: blocksGeneric()}
	s.q8 = blockFuncs{decode: decodeQ8Generic, unpack: unpackQ8Generic, tile: blocksGeneric()}
	s.quantizeBlocks = quantizeBlocksGeneric
	s.peaks = peaksGeneric
	s.transpose = transposeGeneric
	s.copyRows = copyRowsGeneric
	s.convert = convertGeneric
	s.unary = unaryGeneric
	s.binary = binaryGeneric
	s.reduce = reduceGeneric
	s.attention = attentionTileGeneric
	s.dot = dotGeneric
	s.softmax = softmaxGeneric
	s.softmaxStep = softmaxStepGeneric
	s.layerNorm = normGeneric(true)
	s.rmsNorm = normGeneric(false)
}
