//go:build !nowgpu

package main

import _ "github.com/rlxc/rlxc/backend/wgpu" // the loader behind it makes the binary dynamic
