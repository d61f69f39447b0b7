//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// machineLevel is the highest level whose every feature this CPU and its operating system have.
func machineLevel() Level {
	has := [numLevels]bool{
		Generic: true,
		NEON:    true, // Go itself needs it
		DotProd: cpu.ARM64.HasASIMDDP,
		I8MM:    hasI8MM(),
		BF16:    hasBF16(),
	}
	level := Generic
	for level+1 < numLevels && has[level+1] {
		level++
	}
	return level
}

func init() {
	variants[NEON] = func(s *Set) {
		s.gemm = gemmTileNEON
		s.gemmS8 = gemmTileS8NEON
		s.gemmBF16 = gemmTileBF16NEON
		s.pairsBF16 = gemmTileBF16NEON
		s.copyRows = copyRowsNEON
		s.unary = unaryNEON
		s.binary = binaryNEON
		s.reduce = reduceNEON
		s.dot = dotNEON
		s.softmax = softmaxNEON
		s.layerNorm = layerNormNEON
		s.rmsNorm = rmsNormNEON
		s.attention = attentionTileNEON
		s.softmaxStep = softmaxStepNEON
		s.depthwise = depthwiseNEON
		s.winograd = winogradFuncs{winogradInputNEON, winogradOutputNEON, winogradWeightsNEON}
		s.transpose = transposeNEON
		s.convert = convertFuncs{toF16NEON, fromF16NEON, toBF16NEON, fromBF16NEON, 4}
		s.roundBF16 = toBF16NEON
		s.pairBF16 = pairBF16NEON
		s.quantize = quantizeFuncs{quantizeNEON, fromU8NEON, fromS8NEON, minMaxNEON, 8, dequantizeNEON, sumBytesNEON, interleaveNEON, nil,
			quantizeGeneric.rescale, nil, nil, maxBytesNEON, &quantizeGeneric}
		s.q4 = blockFuncs{decode: decodeQ4NEON, unpack: unpackQ4NEON, tile: gemmBlocksNEON}
		s.q8 = blockFuncs{decode: decodeQ8NEON, unpack: unpackQ8NEON, tile: gemmBlocksNEON}
		s.quantizeBlocks = quantizeBlocksNEON
		s.peaks[PeakFMA] = peakLoop{peakFMANEON, 24 * 2 * 4}
		s.peaks[PeakRead] = readLoop(peakReadNEON, 384)
	}
	variants[DotProd] = func(s *Set) {
		s.gemmS8 = gemmTileDotProd
		s.q4.tile, s.q8.tile = gemmBlocksDotProd, gemmBlocksDotProd
		s.q4.digits, s.q8.digits = &digitsQ4DotProd, &digitsQ8DotProd
		s.peaks[PeakInt8] = peakLoop{peakDotProd, 24 * 2 * 16}
	}
	variants[I8MM] = func(s *Set) {
		s.gemmS8 = gemmTileI8MM
		s.peaks[PeakInt8] = peakLoop{peakI8MM, 24 * 2 * 32}
	}
	variants[BF16] = func(s *Set) {
		s.gemmBF16 = gemmTileBF16Deep
		s.pairsBF16 = gemmTileBF16
		s.peaks[PeakBF16] = peakLoop{peakBF16NEON, 24 * 2 * 16}
	}
}
