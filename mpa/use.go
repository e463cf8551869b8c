package mpa

import "time"

// Use has the sizes of a workload's containers by a long history of their use, and the
// requests of its template. Only agents that size by them have it.
type Use struct {
	// Generation of the autoscaler's spec.
	Generation int64 `json:"generation,omitempty"`
	// Template and Sizes are in the order of the target's containers.
	Template []TemplateSize `json:"template,omitempty"`
	Sizes    []UseSize      `json:"sizes,omitempty"` // nil = not known, for the reason Missing
	// Midnight that ends the days of the sizes.
	Midnight time.Time `json:"midnight,omitzero"`
	Missing  string    `json:"missing,omitempty"`
	// Fixed is the reason that pods keep the size of their template; empty = they need not.
	Fixed string `json:"fixed,omitempty"`
}

// A TemplateSize has the requests and limits of a container in the workload's template;
// an amount of 0 is none.
type TemplateSize struct {
	Request Resources `json:"request"`
	Limit   Resources `json:"limit,omitzero"`
}

// A UseSize is the size of a container by its use. An amount of 0 is not known, for the
// reason given.
type UseSize struct {
	Resources
	CPUReason    string `json:"cpuReason"`
	MemoryReason string `json:"memoryReason"`
	// Days of history of cpu, and those of memory.
	Days       int `json:"days"`
	MemoryDays int `json:"memoryDays"`
}
