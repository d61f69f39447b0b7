package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/pipeline"
)

func TestDetectPrintsTheObjectsOfEachPhoto(t *testing.T) {
	const folder = "../../pipeline/testdata/images/"
	photos := []string{folder + "photo0.png", folder + "photo1.png"}
	var out strings.Builder
	require.NoError(t, detect(t.Context(), &out, folder+"yolov8/model.onnx", photos))
	require.Regexp(t, `^\S+photo0\.png: (\d+ [a-z' ]+, )*\d+ [a-z' ]+\n`+
		`(  [a-z' ]+ 0\.\d\d: \d+ × \d+ pixels at \d+, \d+\n)+\S+photo1\.png: `, out.String())
	require.ErrorContains(t, detect(t.Context(), &out, folder+"yolov8/model.onnx", []string{folder + "none.png"}), "none.png")
	require.Equal(t, "2 car, 1 person", summary([]pipeline.Detection{{Label: "car"}, {Label: "person"}, {Label: "car"}}))
	require.Equal(t, "nothing", summary(nil))
}
