package kernel

const (
	AVX2       Level = Generic + 1 + iota // AVX2, FMA, F16C
	AVX512                                // AVX-512 F, BW, DQ, VL
	AVX512VNNI                            // 8-bit dot products
	AVX512BF16                            // bfloat16 dot products
	AMX                                   // tiles of bfloat16 and of 8-bit integers
	numLevels
)

var levelNames = [numLevels]string{"generic", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"}
