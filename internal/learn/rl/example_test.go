package rl_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/internal/learn/rl"
)

// A bandit: whatever is seen, the best action is .5.
func Example() {
	config := rl.AWARE(1, 1, 1)
	config.Noise.Dt = 1 // explore widely
	agent, err := rl.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, action := []float32{1}, []float32{0}
	for range 1500 {
		agent.Explore(state, action)
		off := action[0] - .5
		if err := agent.Observe(rl.Transition{State: state, Action: action, Reward: -off * off, Next: state, End: rl.Terminal}); err != nil {
			fmt.Println(err)
			return
		}
		if _, err := agent.Update(); err != nil {
			fmt.Println(err)
			return
		}
	}
	agent.Act(state, action)
	fmt.Printf("%.1f\n", action[0])
	// Output: 0.5
}
