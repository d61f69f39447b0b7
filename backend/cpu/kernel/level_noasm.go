//go:build (!amd64 && !arm64) || noasm

package kernel

func machineLevel() Level       { return Generic }
func machineCaches() cacheSizes { return defaultCaches }

func pause() {}
