package quantize_test

import (
	"fmt"
	"log"

	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/quantize"
)

// 8-bit weights of a model, and what became of its operators. rlxc.Model.Quantize does this for an opened model.
func Example() {
	config, _ := models.Lookup("bert-tiny")
	m, err := models.Build(config)
	if err != nil {
		log.Fatal(err)
	}
	_, report, err := quantize.Model(m, quantize.Dynamic, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range quantize.Summary(report.Quantised) {
		fmt.Println(c)
	}
	// Output:
	// {Gather  2}
	// {MatMul  12}
	// {Gemm  1}
}
