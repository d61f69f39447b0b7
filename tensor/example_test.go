package tensor_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/rlxc/rlxc/tensor"
)

// A tensor and the slice that it was made from share memory. Clone copies.
func Example() {
	numbers := []float32{1, 2, 3, 4, 5, 6}
	t := tensor.FromSlice(numbers, 2, 3)
	copied := t.Clone()
	numbers[0] = 10
	fmt.Println(t.DType(), t.Shape(), tensor.Of[float32](t)[0], tensor.Of[float32](copied)[0])
	// Output: f32 [2,3] 10 1
}

// A file of NumPy holds one tensor. The limit bounds the memory that reading may take, because the file's header is not to be trusted.
func ExampleReadNPY() {
	var file bytes.Buffer
	if err := tensor.WriteNPY(&file, tensor.FromSlice([]int64{7, 8}, 1, 2)); err != nil {
		log.Fatal(err)
	}
	t, err := tensor.ReadNPY(&file, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.DType(), t.Shape(), t.Int64s())
	// Output: i64 [1,2] [7 8]
}
