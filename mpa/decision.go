package mpa

import (
	"fmt"
	"strings"
	"time"
)

// An Action changes one dimension: the number of replicas, the requests of all pods, or how
// many requests each works on at once.
// It states the result and not the difference, so it may be carried out twice.
type Action struct {
	Replicas   int32       `json:"replicas,omitempty"`   // 0 = no change
	Containers []Resources `json:"containers,omitempty"` // in the target's order; nil = no change
	Limit      int32       `json:"limit,omitempty"`      // 0 = no change
}

// A dimension is the part of a workload that an action changes.
type dimension int

const (
	ofReplicas dimension = iota
	ofRequests
	ofLimit
)

func (a Action) dimension() dimension {
	switch {
	case a.Limit != 0:
		return ofLimit
	case a.Replicas != 0:
		return ofReplicas
	}
	return ofRequests
}

// A State of a workload: replicas and the requests of each pod, in the order of the
// target's containers.
type State struct {
	Replicas   int32       `json:"replicas"`
	Containers []Resources `json:"containers,omitempty"` // nil = unknown
	Limit      int32       `json:"limit,omitempty"`      // requests at once in a pod; 0 = any number, or unknown
}

// A Decision is the answer to an observation.
type Decision struct {
	Time        time.Time      `json:"time"`
	Recommended Recommendation `json:"recommended"`
	// Wanted is the recommendation within bounds, above the memory in use and at most the
	// largest size that nodes can give. The steps lead there. Zero = there was no
	// recommendation.
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
	if a.Limit != 0 {
		return fmt.Sprintf("%d requests at once", a.Limit)
	}
	if a.Replicas != 0 {
		return fmt.Sprintf("%d replicas", a.Replicas)
	}
	sizes := make([]string, len(a.Containers))
	for i, r := range a.Containers {
		sizes[i] = fmt.Sprintf("%dm, %d MiB", r.CPU, r.Memory>>20)
	}
	return strings.Join(sizes, "; ")
}
