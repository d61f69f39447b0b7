package server

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/rlxc/rlxc/internal/files"
)

// intact fails with rlxc.ErrFileChanged if files that the model has open were written to or truncated. Files that others have been renamed
// to, or that are gone, are as they were to who has them open.
func (m *opened) intact() error {
	for _, p := range m.programs() {
		if err := p.CheckFiles(); err != nil {
			return err
		}
	}
	return nil
}

// stampsOf are the states of the files at paths, but for those that are gone.
func stampsOf(paths []string) (list []files.Stamp) {
	for _, path := range paths {
		if s, err := files.StampOf(path); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// openable are the states of the files that the model has open and of all files in their folders: the files that opening it again may read.
func (m *opened) openable() []files.Stamp {
	var paths []string
	for _, p := range m.programs() {
		paths = append(paths, p.Files()...)
	}
	for _, path := range paths {
		entries, _ := os.ReadDir(filepath.Dir(path)) // a folder that cannot be listed has no files
		for _, e := range entries {
			paths = append(paths, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	slices.Sort(paths)
	return stampsOf(slices.Compact(paths))
}
