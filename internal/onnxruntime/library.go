package onnxruntime

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// Env names the environment variable that holds the path of the library.
const Env = "RLXC_ONNXRUNTIME"

// Find returns the path of onnxruntime's shared library: the path given, or the one in RLXC_ONNXRUNTIME, or the one inside
// the onnxruntime package of the Python that the shell would start. A path that leads nowhere is an error; the other positions
// are not looked at then.
func Find(path string) (string, error) {
	if path != "" {
		return existing(path, "the path given")
	}
	if path = os.Getenv(Env); path != "" {
		return existing(path, Env)
	}
	for _, dir := range sitePackages() {
		found, _ := filepath.Glob(filepath.Join(dir, "onnxruntime", "capi", libraryName()))
		if len(found) > 0 {
			slices.Sort(found)
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("onnxruntime's library was not found: pip install onnxruntime in the active Python environment, or set %s to "+
		"the path of %s",
		Env, libraryName())
}

func existing(path, source string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("onnxruntime's library (%s): %w", source, err)
	case info.IsDir():
		return "", fmt.Errorf("onnxruntime's library (%s): %s is a folder; name the file %s in it", source, path, libraryName())
	}
	return filepath.Abs(path) // the loader searches elsewhere for a bare name
}

// libraryName is a pattern for the library's file name, which may end in its version.
func libraryName() string {
	switch runtime.GOOS {
	case "windows":
		return "onnxruntime.dll"
	case "darwin":
		return "libonnxruntime*.dylib"
	}
	return "libonnxruntime.so*"
}

// sitePackages lists the folders in which the active Python keeps packages, found without running it: those of the active
// virtual or conda environment, then those of the python3 on the PATH.
func sitePackages() []string {
	prefixes := []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")}
	for _, name := range []string{"python3", "python"} {
		if python, err := exec.LookPath(name); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Dir(python)))
			if python, err = filepath.EvalSymlinks(python); err == nil {
				prefixes = append(prefixes, filepath.Dir(filepath.Dir(python)))
			}
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		prefixes = append(prefixes, filepath.Join(home, ".local"))
	}
	var dirs []string
	for _, prefix := range prefixes {
		if prefix == "" {
			continue
		}
		for _, pattern := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages",
			"lib/python3/dist-packages", "Lib/site-packages"} {
			found, _ := filepath.Glob(filepath.Join(prefix, filepath.FromSlash(pattern)))
			dirs = append(dirs, found...)
		}
	}
	return dirs
}
