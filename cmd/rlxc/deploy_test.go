package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDeploy holds the files of deploy to the flags of serve: an environment variable or a flag that is none would be passed over.
func TestDeploy(t *testing.T) {
	known := map[string]bool{envName("models"): true}
	flags := serveCommand().Flags()
	names := regexp.MustCompile(strings.ToUpper(envPrefix) + `\w+`)
	options := regexp.MustCompile(`[ \["](--[a-z-]+)[,\] "]`)
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	require.NoError(t, err)
	require.Greater(t, len(files), 5)
	found := 0
	for _, file := range append(files, "../../deploy/Containerfile") {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range names.FindAllString(string(data), -1) {
			found++
			flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, strings.ToUpper(envPrefix))), "_", "-")
			require.True(t, known[name] || flags.Lookup(flag) != nil, "%s: %s", file, name)
		}
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		for _, m := range options.FindAllStringSubmatch(string(data), -1) {
			found++
			require.NotNil(t, flags.Lookup(strings.TrimPrefix(m[1], "--")), "%s: %s", file, m[1])
		}
	}
	require.Greater(t, found, 5)
}
