package mpa

import (
	"fmt"
	"strings"
	"time"
)

// An Action changes one dimension: the number of replicas or the requests of all
// pods. It says what there is to be, so doing it twice is doing it once.
type Action struct {
	Replicas   int32       `json:"replicas,omitempty"`   // 0 = as they are
	Containers []Resources `json:"containers,omitempty"` // in the target's order; nil = as they are
}

// A State of a workload: replicas and the requests of each pod, in the order of the
// target's containers.
type State struct {
	Replicas   int32       `json:"replicas"`
	Containers []Resources `json:"containers,omitempty"` // nil = not known
}

// A Decision is what came of an observation.
type Decision struct {
	Time        time.Time      `json:"time"`
	Recommended Recommendation `json:"recommended"`
	// Wanted is what was recommended within bounds, above the memory in use and below
	// what no node can give: where the steps lead to. Zero when nothing could be said.
	Wanted State `json:"wanted,omitzero"`
	// Next is all that is to be when the action is done; without one, what is.
	Next   State   `json:"next"`
	Action *Action `json:"action,omitempty"` // the dimension that changes; nil = hold
	// Guards that changed or stopped what was recommended, in order.
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
