package main

import (
	"sync"
	"time"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/follow"
)

// firstBand is the size from which hints are judged while the uplink has no bands.
const firstBand = 100_000

// A hinter is shared by the follower, which has the sizes that pods declare, and by the loop, which has the sizes of
// ended flows.
type hinter struct {
	mu    sync.Mutex
	known flow.Hinter
}

var _ follow.Hinter = &hinter{}

// Declare takes all that pods of the node declare now, and whose the addresses are.
func (h *hinter) Declare(now time.Time, all []flow.Declaration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known.Declare(now, all)
}

// Trusted are the sizes that may be used now.
func (h *hinter) Trusted() flow.Hints {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known.Trusted()
}

func (h *hinter) judge(now time.Time, r flow.Record, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known.Judge(now, r, first)
}

func (h *hinter) states() []flow.HintState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known.States()
}

// add takes a record.
func (a *agent) add(now time.Time, r flow.Record) {
	a.watcher.Add(now, r)
	first := int64(firstBand)
	if a.follower != nil {
		if s := a.follower.Status(); s != nil && len(s.Thresholds) > 0 {
			first = s.Thresholds[0]
		}
	}
	a.hinter.judge(now, r, first)
}
