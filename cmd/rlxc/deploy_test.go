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

// TestDeployIsClosed holds the files of deploy to what a service that others reach needs.
func TestDeployIsClosed(t *testing.T) {
	read := func(file string) string {
		data, err := os.ReadFile("../../deploy/" + file)
		require.NoError(t, err)
		return string(data)
	}
	deployment, runtime, network := read("kubernetes/deployment.yaml"), read("kserve/runtime.yaml"), read("kubernetes/networkpolicy.yaml")
	for name, text := range map[string]string{"deployment": deployment, "runtime": runtime} {
		for _, want := range []string{"runAsNonRoot: true", "seccompProfile:\n", "type: RuntimeDefault", "readOnlyRootFilesystem: true",
			"allowPrivilegeEscalation: false", "drop: [ALL]", "limits:\n"} {
			require.Contains(t, text, want, name)
		}
	}
	require.Contains(t, deployment, "- name: RLXC_SERVE_API_KEY_FILE ")
	require.Regexp(t, `secretName: rlxc-keys`, deployment)
	require.Equal(t, strings.Count(deployment, "emptyDir:"), strings.Count(deployment, "sizeLimit:"),
		"a volume without a bound fills the node")
	require.Contains(t, runtime, "grpc-v2")
	require.Contains(t, runtime, "--grpc-address", "what is declared is served")
	for _, m := range regexp.MustCompile(`- name: (\w+)\n\s+containerPort`).FindAllStringSubmatch(deployment, -1) {
		require.Contains(t, network, "port: "+m[1], "who reaches the port")
	}
	require.Contains(t, network, "policyTypes: [Ingress]")
	_, ingress, _ := strings.Cut(network, "\n  ingress:\n")
	require.Regexp(t, `^    - from:\n`, ingress, "a rule without peers lets in everybody")
	require.Equal(t, 1, len(regexp.MustCompile(`(?m)^    - `).FindAllString(ingress, -1)), "and so does another rule without peers")
	require.NotContains(t, ingress, "ipBlock")
	label := regexp.MustCompile(`  podSelector:\n    matchLabels:\n      (\S+: \S+)\n`).FindStringSubmatch(network)
	require.NotNil(t, label)
	require.Contains(t, deployment, "\n        "+label[1]+"\n", "the policy is for the pods of the deployment")
	customization := read("kubernetes/kustomization.yaml")
	image := regexp.MustCompile(`image: (\S+)`)
	require.Regexp(t, `- name: `+image.FindStringSubmatch(deployment)[1]+`\n(.*\n)? +newTag: \d`, customization, "the image has a version")
	require.Regexp(t, `:\d`, image.FindStringSubmatch(runtime)[1], "the image has a version")
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text := read(strings.TrimPrefix(file, "../../deploy/"))
		require.NotRegexp(t, `:latest|newTag: latest`, text, "%s: an image that changes under its name", file)
		if strings.Contains(file, "kubernetes/") && !strings.HasSuffix(file, "kustomization.yaml") {
			require.Contains(t, customization, "- "+filepath.Base(file))
		}
	}
}
