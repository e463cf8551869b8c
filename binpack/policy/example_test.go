package policy_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack/policy"
)

func ExampleByName() {
	pol, err := policy.ByName("bestfit", policy.Options{})
	fmt.Println(pol.Knowledge(), err)
	// Output: K0 <nil>
}
