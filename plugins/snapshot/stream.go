package snapshot

import (
	"errors"
	"time"

	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A stream is a recording that keeps only the present pods in memory.
type stream struct {
	fleet         string
	last          int64            // time of the last look, in ms since 1970
	written       int64            // time of the last event
	pods          map[string]named // by UID
	expected      []string         // nodes, one of which is to be there
	arrived, left int              // since the first look
	looked        bool
}

// named holds the data of a pod that a ledger lacks.
type named struct {
	name    string
	created int64
}

// OpenStream begins to record in the files of a log, which continues like a scheduler's: each process
// begins with a description of the cluster. fleet is open or fixed.
func OpenStream(path, appLabel, fleet string, rotation ledger.Rotation, now time.Time) (*Recorder, error) {
	r := NewRecorder(appLabel, now)
	r.stream = &stream{fleet: fleet, pods: map[string]named{}}
	var err error
	r.log, err = ledger.OpenRotatingLog(path, rotation)
	return r, err
}

// Expect sets the nodes of the record that a stream continues: a cluster with none of them is
// another one.
func (r *Recorder) Expect(nodes []string) { r.stream.expected = nodes }

// Miss records that the cluster was not observed for a while. A stream then begins with a description, and
// a gap shows that events are missing.
func (r *Recorder) Miss() {
	if r.stream == nil || r.ledger == nil {
		return
	}
	r.log.Skip(1)
	r.ledger = nil
	r.stream.pods = map[string]named{}
}

func (r *Recorder) fleet() string {
	if r.stream == nil {
		return "open"
	}
	return r.stream.fleet
}

// pulse is the longest time for which a cluster without changes writes no event.
const pulse = 5 * time.Minute

// quiet returns the event of a look without changes, nil if it need not be written: without it a day
// looks like one that was not watched.
func (s *stream) quiet() *ledger.Event {
	if s.last-s.written < pulse.Milliseconds() {
		return nil
	}
	return &ledger.Event{Kind: ledger.KindForecast, Time: float64(s.last) / 1e3}
}

// write writes the events of a look, and continues in another file when this one is full.
func (s *stream) write(r *Recorder, events []*ledger.Event, now time.Time) error {
	for _, e := range events {
		switch e.Kind {
		case ledger.KindPlace, ledger.KindArrive:
			if _, known := s.pods[e.UID]; !known && s.looked {
				s.arrived++
			}
			s.pods[e.UID] = named{e.Pod, e.Created}
		case ledger.KindRemove:
			delete(s.pods, e.UID)
			s.left++
		default: // of nodes, apps and rules
		}
	}
	s.looked, s.written = true, s.last
	if err := errors.Join(r.log.Write(events...), r.log.Sync()); err != nil {
		return err
	}
	if !r.log.Full() {
		return nil
	}
	known := map[string]named{}
	description := r.ledger.Describe(func(p *ledger.Pod) (string, int64) {
		known[p.UID()] = s.pods[p.UID()]
		return known[p.UID()].name, known[p.UID()].created
	})
	for _, e := range description {
		e.Time = float64(s.last) / 1e3
	}
	s.pods = known
	return errors.Join(r.log.Begin(now, description), r.log.Prune())
}

// tally counts the present objects, and the arrivals and departures since the first look.
func (s *stream) tally(r *Recorder) history.Tally {
	t := history.Tally{Arrived: s.arrived, Left: s.left}
	if r.ledger == nil {
		return t
	}
	for range r.ledger.Nodes() {
		t.Nodes++
	}
	for range r.ledger.Apps() {
		t.Apps++
	}
	t.Waiting = len(r.waiting)
	t.Standing = max(0, len(s.pods)-t.Waiting)
	return t
}
