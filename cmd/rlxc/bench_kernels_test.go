package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
)

func TestKernelReport(t *testing.T) {
	r := &kernelReport{Level: "avx512"}
	r.add(kernel.Rate{Name: "product", Unit: "GFLOP/s", Rate: 90, Peak: 120})
	r.add(kernel.Rate{Name: "softmax", Unit: "ns/element", Rate: 0.25})
	var out strings.Builder
	require.NoError(t, r.text(&out))
	require.Regexp(t, `(?m)^ +90 +120\.0 +75\.0% +GFLOP/s +product$`, out.String())
	require.Regexp(t, `(?m)^ +0\.25 +ns/element +softmax$`, out.String())
	data, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"level": "avx512", "kernels": [
		{"name": "product", "unit": "GFLOP/s", "rate": 90, "peak": 120, "share": 0.75},
		{"name": "softmax", "unit": "ns/element", "rate": 0.25}]}`, string(data))
}
