package hub_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

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
