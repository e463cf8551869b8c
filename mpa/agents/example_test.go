package agents_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// Four pods use 95 % of their cpu requests; the HorizontalPodAutoscaler aims at 80 %.
func Example() {
	agent, err := agents.Make(mpa.Spec{Name: "hpa"}, mpatest.Web(), nil)
	if err != nil {
		panic(err)
	}
	o := mpatest.Observation(mpatest.Begin, 4, mpatest.Size, mpa.Resources{CPU: 950, Memory: 512 << 20})
	r := agent.Recommend(o)
	fmt.Println(r.Replicas, r.Reason)
	// Output: 5 cpu at 95 % of its requests, 80 % wanted
}
