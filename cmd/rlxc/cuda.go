package main

import (
	"fmt"
	"strconv"

	_ "github.com/rlxc/rlxc/backend/cuda" // the loader after it makes the binary dynamic
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/page"
)

// nvidiaDevices lists the devices of the cuda backend.
func nvidiaDevices() ([]deviceRow, error) {
	lib, err := driver.Open("")
	if err != nil {
		return nil, err
	}
	list, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	var rows []deviceRow
	for _, i := range list {
		rows = append(rows, deviceRow{Backend: "cuda", Device: strconv.Itoa(i.Number), Name: i.Name, Buffer: uint64(i.Memory),
			Kind:   fmt.Sprintf("compute capability %d.%d, %d multiprocessors, %s", i.Major, i.Minor, i.Processors, page.Bytes(i.Memory)),
			Driver: fmt.Sprintf("CUDA %d.%d", i.Driver/1000, i.Driver%1000/10)})
	}
	return rows, nil
}
