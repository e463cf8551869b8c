package binpack

import "math/bits"

// Known is a policy's knowledge beyond the past. Slices have one value per app; nil
// = unknown.
type Known struct {
	Expected []float64 // forecast of items alive at the same time; negative = not given
	Lifetime []float64 // mean seconds; negative = not given
	Total    []int64   // true number of items (with deletes: at the true peak)
	// Elapsed is the elapsed share of the arrival period, 0 … 1; negative without a
	// clock.
	Elapsed float64
}

// A Change records that a machine changed because an item of App arrived or left;
// App is -1 when the machine itself was added to or removed from the offer.
type Change struct {
	Machine, App int32
}

const journalSize = 1 << 12

// journal records which machines changed.
type journal struct {
	changes []Change
	seq     uint64
	version []uint32 // per machine: changes with every change of the machine
}

// note records in the journal that a machine changed.
func (s *journal) note(m, app int32) {
	s.changes[s.seq%journalSize] = Change{m, app}
	s.seq++
	s.version[m] = uint32(s.seq)
}

// Changes appends to buf the changes since the journal number seq and returns the
// number for the next call. all is true, and nothing appended, when the journal
// does not reach back that far: everything may have changed.
func (s *journal) Changes(seq uint64, buf []Change) (changes []Change, next uint64, all bool) {
	if s.seq-seq > journalSize {
		return buf, s.seq, true
	}
	for ; seq < s.seq; seq++ {
		buf = append(buf, s.changes[seq%journalSize])
	}
	return buf, s.seq, false
}

// history counts arrivals.
type history struct {
	seen        []int64 // per app: items that arrived
	requests    []int64 // per app: requests that arrived
	sumSq       []int64 // per app: sum of squared request sizes
	requestsAll int64
	came        int64 // apps with at least one request
	seenAll     int64
	sampled     []int64 // per app: seen at the last sample
	sampledAt   int64   // requests then
	lastArrival int32
	most        int64 // items alive at one time
}

// Most is the largest number of items that were alive at one time.
func (s *history) Most() int64 { return s.most }

// SetMost replaces the number of [State.Most]. Drivers whose items are not all booked use it.
func (s *history) SetMost(items int64) { s.most = items }

// Seen is the number of items that arrived, per app. Read only.
func (s *history) Seen() []int64 { return s.seen }

// Requests is the number of requests that arrived, per app. Read only.
func (s *history) Requests() []int64 { return s.requests }

// SeenTotal is the number of items that arrived.
func (s *history) SeenTotal() int64 { return s.seenAll }

// Sample is the number of items of each app that had arrived when the number of
// requests was last a power of four, and that number; a state whose history was
// restored has no sample until the next. Read only.
func (s *history) Sample() (seen []int64, requests int64) { return s.sampled, s.sampledAt }

// SumSquares is the sum of squared request sizes, per app. Read only.
func (s *history) SumSquares() []int64 { return s.sumSq }

// LastArrival is the app of the latest request.
func (s *history) LastArrival() int32 { return s.lastArrival }

// RequestCount is the number of requests that arrived.
func (s *history) RequestCount() int64 { return s.requestsAll }

// Came is the number of apps with at least one request.
func (s *history) Came() int64 { return s.came }

// Arrive records that a request for count items of an app has arrived. Drivers
// call it before the request's first item is placed.
func (s *history) Arrive(app, count int32) {
	s.lastArrival = app
	s.seen[app] += int64(count)
	if s.requests[app] == 0 {
		s.came++
	}
	s.requests[app]++
	s.sumSq[app] += int64(count) * int64(count)
	s.requestsAll++
	s.seenAll += int64(count)
	if sampleAt(s.requestsAll) {
		copy(s.sampled, s.seen)
		s.sampledAt = s.requestsAll
	}
}

// sampleAt reports whether arrivals are sampled with the n-th request, which holds
// when n is a power of four. Learning from a sample then costs little, and is a
// function of the state all the same.
func sampleAt(n int64) bool { return n&(n-1) == 0 && bits.TrailingZeros64(uint64(n))%2 == 0 }

// A History holds a state's facts about the past that its present items do not show.
type History struct {
	Seen, Requests, SumSquares []int64  // per app
	LastUsed, Opened           []uint64 // per machine
	Placements, Departures     uint64
	LastArrival                int32
	Most                       int64 // items alive at one time; the present ones count as well
}

// Restore replaces the state's history. Drivers whose machines or apps changed use
// it after they have booked the present items into a new state.
func (s *State) Restore(h History) {
	copy(s.seen, h.Seen)
	copy(s.requests, h.Requests)
	copy(s.sumSq, h.SumSquares)
	copy(s.lastUsed, h.LastUsed)
	copy(s.opened, h.Opened)
	s.most = h.Most
	clear(s.sampled) // until the next sample
	s.serial, s.departures, s.lastArrival = h.Placements, h.Departures, h.LastArrival
	s.requestsAll, s.came, s.seenAll, s.sampledAt = 0, 0, 0, 0
	for a, n := range s.requests {
		if n > 0 {
			s.came++
		}
		s.requestsAll += n
		s.seenAll += s.seen[a]
	}
	s.seq += journalSize + 1 // readers of the journal learn that all is new
}
