package mpa

import (
	"fmt"
	"strings"
	"time"
)

// An Action changes one dimension: the number of replicas, or the requests of all pods.
// It states the result and not the difference, so it may be carried out twice.
type Action struct {
	Replicas   int32       `json:"replicas,omitempty"`   // 0 = no change
	Containers []Resources `json:"containers,omitempty"` // in the target's order; nil = no change
}

// A State of a workload: replicas and the requests of each pod, in the order of the
// target's containers.
type State struct {
	Replicas   int32       `json:"replicas"`
	Containers []Resources `json:"containers,omitempty"` // nil = not known
}

// A Decision is the answer to an observation.
type Decision struct {
	Time        time.Time      `json:"time"`
	Recommended Recommendation `json:"recommended"`
	// Wanted is the recommendation within bounds, above the memory in use and below
	// what no node can give. The steps lead there. Zero = there was no recommendation.
	Wanted State `json:"wanted,omitzero"`
	// Next is the workload after the action; without an action, the present one.
	Next   State   `json:"next"`
	Action *Action `json:"action,omitempty"` // the dimension that changes; nil = hold
	// Guards that changed or held the recommendation, in order.
	Guards []string `json:"guards,omitempty"`
	// Reason of the action, or of holding.
	Reason string `json:"reason"`
}

// String is the action in a few words.
func (a Action) String() string {
	if a.Replicas != 0 {
		return fmt.Sprintf("%d replicas", a.Replicas)
	}
	sizes := make([]string, len(a.Containers))
	for i, r := range a.Containers {
		sizes[i] = fmt.Sprintf("%dm, %d MiB", r.CPU, r.Memory>>20)
	}
	return strings.Join(sizes, "; ")
}
