package kernel

const (
	NEON    Level = Generic + 1 + iota // vectors of ARMv8.0
	DotProd                            // sums of products of four bytes
	I8MM                               // matrix products of bytes, also of unsigned bytes with signed ones
	BF16                               // sums of products of two bfloat16
	numLevels
)

var levelNames = [numLevels]string{"generic", "neon", "dotprod", "i8mm", "bf16"}
