package agents

import "github.com/sigma-scheduler/sigma/mpa"

// Template returns pods to the requests of their workload's template.
type Template struct{}

// Recommend implements [mpa.Agent].
func (Template) Recommend(o *mpa.Observation) mpa.Recommendation {
	if o.Use == nil || o.Use.Template == nil {
		return noOpinion("template", "the requests of the template are not known")
	}
	return mpa.Recommendation{Containers: requestsOf(o.Use.Template), Source: "template", Reason: "the requests of the workload's template"}
}

// MarshalJSON implements [mpa.Stateful]: the state is empty.
func (Template) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// UnmarshalJSON implements [mpa.Stateful].
func (Template) UnmarshalJSON([]byte) error { return nil }

func requestsOf(list []mpa.TemplateSize) []mpa.Resources {
	requests := make([]mpa.Resources, len(list))
	for i := range list {
		requests[i] = list[i].Request
	}
	return requests
}
