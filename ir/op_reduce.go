package ir

// Reduce combines the elements along Axes (sorted, not negative; none means that nothing is reduced), which stay with
// size 1 when KeepDims.
type Reduce struct {
	Fn       Reduction `ir:"name"`
	Axes     []int
	KeepDims bool
}

// Kind implements Op.
func (Reduce) Kind() Kind { return KindReduce }

// ArgReduce gives the index (i64) of the largest element along Axis, or of the smallest when Min: of the first such, or
// of the last when Last.
type ArgReduce struct {
	Min      bool
	Axis     int
	KeepDims bool
	Last     bool
}

// Kind implements Op.
func (ArgReduce) Kind() Kind { return KindArgReduce }

// Softmax is exp(x − max) / Σ exp(x − max) along Axis, or its logarithm when Log.
type Softmax struct {
	Axis int
	Log  bool
}

// Kind implements Op.
func (Softmax) Kind() Kind { return KindSoftmax }

// CumSum sums along Axis up to each element, without it when Exclusive, from the end when Reverse.
type CumSum struct {
	Axis               int
	Exclusive, Reverse bool
}

// Kind implements Op.
func (CumSum) Kind() Kind { return KindCumSum }
