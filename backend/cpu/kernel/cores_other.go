//go:build !(darwin && arm64)

package kernel

import "math"

// fastCores is no bound where all cores are alike, or the system does not report.
func fastCores() int { return math.MaxInt }
