package rule_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack/rule"
)

func ExampleByName() {
	pol, err := rule.ByName("bestfit", rule.Options{})
	fmt.Println(pol.Knowledge(), err)
	// Output: K0 <nil>
}
