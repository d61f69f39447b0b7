package hub_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlxc/rlxc/hub"
)

// A client that is offline reads the cache alone, which it shares with huggingface_hub.
func Example() {
	cache, err := os.MkdirTemp("", "hub")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(cache)
	c := &hub.Client{Cache: cache, Offline: true} // hub.FromEnv() for HF_HUB_CACHE, HF_TOKEN and the like
	_, err = c.File(context.Background(), "sentence-transformers/all-MiniLM-L6-v2", "main", "config.json")
	fmt.Println(errors.Is(err, hub.ErrOffline))
	// Output: true
}

// A snapshot is a folder with some of a model's files, at one commit. Here the cache has the model, as another program may have left it;
// otherwise Snapshot downloads what is missing.
func ExampleClient_Snapshot() {
	cache, err := os.MkdirTemp("", "hub")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(cache)
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for name, content := range map[string]string{"snapshots/" + commit + "/config.json": "{}", "refs/main": commit} {
		file := filepath.Join(cache, "models--acme--tiny", filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
			log.Fatal(err)
		}
	}

	c := &hub.Client{Cache: cache, Offline: true}
	s, err := c.Snapshot(context.Background(), "acme/tiny", "main", func(paths []string) []string {
		return slices.DeleteFunc(paths, func(path string) bool { return filepath.Ext(path) != ".json" })
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.ID, s.Commit[:7], s.Files) // s.Dir is the folder
	// Output: acme/tiny 0123456 [config.json]
}
