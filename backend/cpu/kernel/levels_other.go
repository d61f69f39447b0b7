//go:build !amd64 && !arm64

package kernel

const numLevels = Generic + 1

var levelNames = [numLevels]string{"generic"}
