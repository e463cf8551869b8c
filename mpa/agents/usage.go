package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

const (
	// usageBand is the smallest change of a request, as a share of it.
	usageBand = .1
	// UsageHeadroom is the factor over the memory in use below which no request falls.
	UsageHeadroom = 1.15
	// usageDays is the time for which a request does not fall below the need that a kill
	// proved.
	usageDays = 28 * day
)

// Usage sizes containers by 28 days of their use, which an observation has, and has no opinion
// on replicas. A proposal is made anew with the sizes of another midnight, and at once for a
// container that ran out of memory. Without new sizes the last proposal stays. After an
// edit of the template's requests it recommends those of the template, until the
// autoscaler's spec changes or the edit is undone.
type Usage struct {
	target mpa.Target
	state  usageState
}

type usageState struct {
	Midnight time.Time       `json:"midnight,omitzero"` // of the sizes in Wanted
	Wanted   []mpa.Resources `json:"wanted,omitempty"`  // nil = no proposal yet
	Why      string          `json:"why,omitempty"`     // of Wanted
	// Template has the requests of the template at the first decision for Generation; nil =
	// none was made.
	Template   []mpa.Resources `json:"template,omitempty"`
	Generation int64           `json:"generation,omitempty"`
	Needed     []mpa.Peaks     `json:"needed,omitempty"` // memory that kills proved, by container
	// Killed has the last kill of each container of live pods, by pod/container; zero = none.
	Killed map[string]time.Time `json:"killed,omitempty"`
}

// NewUsage returns an agent without memory.
func NewUsage(t mpa.Target) *Usage {
	return &Usage{target: t, state: usageState{Needed: make([]mpa.Peaks, len(t.Containers))}}
}

// Recommend implements [mpa.Agent].
func (u *Usage) Recommend(o *mpa.Observation) mpa.Recommendation {
	s := &u.state
	killed := u.kills(o)
	requests, use := o.Requests(&u.target), o.Use
	switch {
	case len(u.target.Containers) == 0:
		return noOpinion("usage", "the spec lists no container")
	case use == nil || len(use.Template) != len(u.target.Containers):
		return noOpinion("usage", "the requests of the template are not known")
	case requests == nil:
		return noOpinion("usage", "no pod to tell the present requests from")
	}
	template := requestsOf(use.Template)
	if s.Template == nil || s.Generation != use.Generation {
		s.Template, s.Generation, s.Midnight = template, use.Generation, time.Time{}
	}
	switch {
	case !slices.Equal(s.Template, template):
		return mpa.Recommendation{Containers: template, Source: "usage", Reason: "the template's requests were changed: left alone, until the autoscaler's spec changes"}
	case use.Fixed != "" && slices.Equal(requests, template):
		return noOpinion("usage", "left alone: %s", use.Fixed)
	case use.Fixed != "":
		return mpa.Recommendation{Containers: template, Source: "usage", Reason: "back to the template: " + use.Fixed}
	}
	if len(use.Sizes) == len(template) && use.Midnight.After(s.Midnight) {
		u.propose(o, requests)
	}
	u.raise(killed, requests, use.Template)
	switch {
	case s.Wanted == nil:
		return noOpinion("usage", "there is no history yet: %s", cmp.Or(use.Missing, "no size is known"))
	case use.Missing != "":
		return mpa.Recommendation{Containers: slices.Clone(s.Wanted), Source: "usage", Reason: s.Why + "; the sizes stay: " + use.Missing}
	}
	return mpa.Recommendation{Containers: slices.Clone(s.Wanted), Source: "usage", Reason: s.Why}
}

// propose makes a proposal of new sizes.
func (u *Usage) propose(o *mpa.Observation, requests []mpa.Resources) {
	s, last := &u.state, u.state.Wanted
	if last == nil {
		last = make([]mpa.Resources, len(requests))
	}
	s.Midnight, s.Wanted = o.Use.Midnight, make([]mpa.Resources, len(requests))
	var why []string
	for i, spec := range u.target.Containers {
		size, t := &o.Use.Sizes[i], &o.Use.Template[i]
		memory := sizeOf(requests[i].Memory, size.Memory, last[i].Memory, t.Request.Memory)
		floor := max(mpa.Scale(largestUse(o, spec.Name), UsageHeadroom), s.Needed[i].Max())
		s.Wanted[i] = mpa.Resources{
			CPU:    banded(requests[i].CPU, sizeOf(requests[i].CPU, size.CPU, last[i].CPU, t.Request.CPU), t.Request.CPU, t.Limit.CPU),
			Memory: banded(requests[i].Memory, max(memory, floor), t.Request.Memory, t.Limit.Memory),
		}
		burstable(&s.Wanted[i], t)
		why = append(why, fmt.Sprintf("%s: cpu %dm (%s), memory %dMi (%s)", spec.Name, s.Wanted[i].CPU, size.CPUReason, s.Wanted[i].Memory>>20, size.MemoryReason))
	}
	s.Why = fmt.Sprintf("%s; %d days up to %s", strings.Join(why, "; "), leastDays(o.Use.Sizes), o.Use.Midnight.Format(time.DateOnly))
}

// sizeOf returns a size by use, or, where it is not known, the last one. A resource without
// either has the template's request, and never less than now.
func sizeOf(now, size, last, template int64) int64 {
	if size > 0 || last > 0 {
		return cmp.Or(size, last)
	}
	return max(now, template)
}

// banded returns the request for a size: at most the limit, and the present one if they differ by
// less than the dead band, or if the template has no request to return to.
func banded(now, size, template, limit int64) int64 {
	if limit > 0 {
		size = min(size, limit)
	}
	if now == 0 || template == 0 || math.Abs(float64(size-now)) < usageBand*float64(now) {
		return now
	}
	return size
}

// burstable keeps a request of cpu below the limit where those of both resources would equal
// their limits: the pod would be Guaranteed, and no running pod can change its class.
func burstable(want *mpa.Resources, t *mpa.TemplateSize) {
	if t.Limit.CPU > 0 && t.Limit.Memory > 0 && *want == t.Limit && t.Request != t.Limit {
		want.CPU--
	}
}

func leastDays(sizes []mpa.UseSize) int {
	least := math.MaxInt
	for i := range sizes {
		least = min(least, sizes[i].Days, sizes[i].MemoryDays)
	}
	return least
}

// largestUse returns the largest working set of a container in bytes; 0 = none is known.
func largestUse(o *mpa.Observation, container string) (most int64) {
	for _, p := range o.Live() {
		for _, c := range p.Containers {
			if c.Name == container {
				most = max(most, c.Usage.Memory)
			}
		}
	}
	return most
}

// kills notes the kills of an observation, and returns the containers with a new one. One that
// a pod had before it was first seen counts while it is new.
func (u *Usage) kills(o *mpa.Observation) []bool {
	cfg, s := DefaultVPA(), &u.state
	alive, found := map[string]time.Time{}, make([]bool, len(u.target.Containers))
	for _, p := range o.Live() {
		for _, c := range p.Containers {
			i := slices.IndexFunc(u.target.Containers, func(spec mpa.ContainerSpec) bool { return spec.Name == c.Name })
			if i < 0 {
				continue
			}
			key := p.Name + "/" + c.Name
			last, seen := s.Killed[key]
			alive[key] = c.Killed
			if c.Killed.After(last) && (seen || !c.Killed.Before(o.Time.Add(-cfg.MaxAge))) {
				found[i] = true
				s.Needed[i].Add(o.Time, max(c.Request.Memory+cfg.BumpBytes, mpa.Scale(c.Request.Memory, cfg.BumpFactor)), usageDays)
			}
		}
	}
	s.Killed = alive
	for i := range s.Needed {
		s.Needed[i].Add(o.Time, 0, usageDays) // forgets
	}
	return found
}

// raise raises the memory of containers that ran out of it to their need, at most to their limit.
func (u *Usage) raise(killed []bool, requests []mpa.Resources, template []mpa.TemplateSize) {
	s := &u.state
	for i, spec := range u.target.Containers {
		if !killed[i] || requests[i].Memory == 0 {
			continue
		}
		if s.Wanted == nil {
			s.Wanted, s.Why = slices.Clone(requests), "there is no history yet"
		}
		need := s.Needed[i].Max()
		why := fmt.Sprintf("; %s ran out of memory", spec.Name)
		if limit := template[i].Limit.Memory; limit > 0 && need > limit {
			why += fmt.Sprintf(", and its limit of %dMi stays", limit>>20)
			need = limit
		}
		if !strings.HasSuffix(s.Why, why) {
			s.Why += why
		}
		s.Wanted[i].Memory = max(s.Wanted[i].Memory, need)
		burstable(&s.Wanted[i], &template[i])
	}
}

// Base returns the requests of the template that decisions began with and the generation of
// the spec that they are for; nil = none was made.
func (u *Usage) Base() (template []mpa.Resources, generation int64) {
	return slices.Clone(u.state.Template), u.state.Generation
}

// Remember sets the results of [Usage.Base], as another process had them.
func (u *Usage) Remember(template []mpa.Resources, generation int64) {
	u.state.Template, u.state.Generation = slices.Clone(template), generation
}

// Shift implements [mpa.Shifter]. Kills are compared with the times in pods, which do not
// move. After a jump ahead, as of a process that was away, the next midnight is a later one
// anyway.
func (u *Usage) Shift(d time.Duration) {
	u.state.Midnight = guard.Moved(u.state.Midnight, min(d, 0))
	for i := range u.state.Needed {
		for j := range u.state.Needed[i] {
			u.state.Needed[i][j].Time = guard.Moved(u.state.Needed[i][j].Time, d)
		}
	}
}

// MarshalJSON implements [mpa.Stateful].
func (u *Usage) MarshalJSON() ([]byte, error) { return json.Marshal(&u.state) }

// UnmarshalJSON implements [mpa.Stateful].
func (u *Usage) UnmarshalJSON(data []byte) error {
	var s usageState
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	n := len(u.target.Containers)
	if len(s.Needed) != n || s.Wanted != nil && len(s.Wanted) != n || s.Template != nil && len(s.Template) != n {
		return fmt.Errorf("usage: memory of %d needed, %d wanted and %d template sizes, want %d containers", len(s.Needed), len(s.Wanted), len(s.Template), n)
	}
	u.state = s
	return nil
}
