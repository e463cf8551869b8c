package node

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
)

// Options of an Observer. Zero fields have their default.
type Options struct {
	Gap   time.Duration // so long after all of it was acknowledged a flow has ended
	Idle  time.Duration // a flow that was silent for so long has ended in any case; not below Gap
	Step  uint64        // bytes after which a running flow is reported, again and again
	Flows int           // at a time
	Ring  int           // bytes of the ring buffer, a power of two and whole pages
}

// Defaults of Options.
const (
	DefaultGap   = 20 * time.Millisecond // some round trips in a loaded cluster
	DefaultIdle  = time.Second
	DefaultStep  = 10_000_000
	DefaultFlows = 65536
	DefaultRing  = 1 << 20
)

// An Observer counts the flows of interfaces. Read has one caller; the other methods may be called concurrently with
// it.
type Observer struct {
	idle    time.Duration
	objects observeObjects
	ring    *ringbuf.Reader

	mu      sync.Mutex
	watched map[int]*watched
	names   map[int]string        // also of deleted interfaces: their last records arrive later
	gone    map[int]time.Duration // since when these have not been watched
	swept   uint64                // flows that Sweep took from the map
}

type watched struct {
	Interface
	links [2]link.Link // kept, or the garbage collector would detach the programs
	base  uint64       // packets that the interface had counted
}

// Open loads the program.
func Open(o Options) (*Observer, error) {
	if o.Gap < 0 || o.Idle < 0 || o.Flows < 0 || o.Ring < 0 || o.Flows > math.MaxInt32 || o.Ring > math.MaxInt32 {
		return nil, fmt.Errorf("gap %v, %d flows, ring of %d bytes: want none below 0 or above 2147483647", o.Gap, o.Flows, o.Ring)
	}
	spec, err := loadObserve()
	if err != nil {
		return nil, err
	}
	var specs observeSpecs
	if err := spec.Assign(&specs); err != nil {
		return nil, err
	}
	gap := cmp.Or(o.Gap, DefaultGap)
	idle := max(gap, cmp.Or(o.Idle, DefaultIdle))
	step := cmp.Or(o.Step, DefaultStep)
	if err := errors.Join(specs.GapNs.Set(uint64(gap)), specs.IdleNs.Set(uint64(idle)), specs.StepBytes.Set(step)); err != nil {
		return nil, err
	}
	if o.Flows > 0 {
		specs.Flows.MaxEntries = uint32(o.Flows)
	}
	if o.Ring > 0 {
		specs.Events.MaxEntries = uint32(o.Ring)
	}
	ob := &Observer{idle: idle, watched: map[int]*watched{}, names: map[int]string{}, gone: map[int]time.Duration{}}
	if err := spec.LoadAndAssign(&ob.objects, nil); err != nil {
		return nil, fmt.Errorf("loading the program: %w", err)
	}
	if ob.ring, err = ringbuf.NewReader(ob.objects.Events); err != nil {
		return nil, errors.Join(fmt.Errorf("ring buffer: %w", err), ob.objects.Close())
	}
	return ob, nil
}

// Close detaches the program. A Read that waits returns os.ErrClosed.
func (o *Observer) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	errs := []error{o.ring.Close()}
	for index := range o.watched {
		errs = append(errs, o.detach(index))
	}
	return errors.Join(append(errs, o.objects.Close())...)
}

// attach begins to watch an interface.
func (o *Observer) attach(i Interface) error {
	counted, err := i.packets()
	if err != nil {
		return err
	}
	if err := o.objects.Interfaces.Put(uint32(i.Index), make([]observeTraffic, ebpf.MustPossibleCPU())); err != nil {
		return fmt.Errorf("%s: %w", i.Name, err)
	}
	w := &watched{Interface: i, base: counted}
	at := [2]ebpf.AttachType{ebpf.AttachTCXEgress, ebpf.AttachTCXIngress}
	if i.Ingress {
		at[0], at[1] = at[1], at[0]
	}
	for n, p := range []*ebpf.Program{o.objects.Observe, o.objects.Acknowledged} {
		w.links[n], err = link.AttachTCX(link.TCXOptions{Interface: i.Index, Program: p, Attach: at[n], Anchor: link.Head()})
		if err != nil {
			_ = o.objects.Interfaces.Delete(uint32(i.Index)) // it was made above
			return errors.Join(fmt.Errorf("%s: %w", i.Name, err), w.close())
		}
	}
	o.watched[i.Index] = w
	o.names[i.Index] = i.Name
	delete(o.gone, i.Index)
	return nil
}

func (w *watched) close() error {
	var errs []error
	for _, l := range w.links {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// nameless is how long the name of an interface is known that is not watched any more, beyond the silence that ends a flow.
const nameless = time.Minute

// forget drops the names of interfaces whose last records have arrived: pods are created and deleted all the time.
func (o *Observer) forget(now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for index := range o.names {
		since, gone := o.gone[index]
		switch {
		case o.watched[index] != nil:
		case !gone:
			o.gone[index] = now
		case now-since > o.idle+nameless:
			delete(o.names, index)
			delete(o.gone, index)
		}
	}
}

// detach ends it. A deleted interface is no error.
func (o *Observer) detach(index int) error {
	err := o.watched[index].close()
	delete(o.watched, index)
	if gone := o.objects.Interfaces.Delete(uint32(index)); gone != nil && !errors.Is(gone, ebpf.ErrKeyNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// Watch watches these interfaces and no others. Those that it cannot watch are in the error; it watches the rest.
func (o *Observer) Watch(interfaces []Interface) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	wanted := map[int]bool{}
	for _, i := range interfaces {
		wanted[i.Index] = true
		if old := o.watched[i.Index]; old != nil && old.Interface == i {
			continue
		} else if old != nil {
			errs = append(errs, o.detach(i.Index))
		}
		errs = append(errs, o.attach(i))
	}
	for index := range o.watched {
		if !wanted[index] {
			errs = append(errs, o.detach(index))
		}
	}
	return errors.Join(errs...)
}

// Watched is the number of interfaces.
func (o *Observer) Watched() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.watched)
}

// Finish lets Read return the remaining records, and then os.ErrClosed.
func (o *Observer) Finish() error { return o.ring.Flush() }

// SetDeadline sets the time from which a waiting Read, and every later one without a record, returns
// os.ErrDeadlineExceeded.
func (o *Observer) SetDeadline(t time.Time) { o.ring.SetDeadline(t) }

// Read waits for the next record of the program.
func (o *Observer) Read() (flow.Record, error) {
	record, err := o.ring.Read()
	if err != nil {
		if errors.Is(err, ringbuf.ErrClosed) || errors.Is(err, ringbuf.ErrFlushed) {
			err = os.ErrClosed
		}
		return flow.Record{}, err
	}
	var e observeEvent
	if err := binary.Read(bytes.NewReader(record.RawSample), binary.NativeEndian, &e); err != nil {
		return flow.Record{}, err
	}
	return o.record(&e.Key, &e.State, flow.End(e.End)), nil
}

func (o *Observer) record(k *observeKey, s *observeState, end flow.End) flow.Record {
	o.mu.Lock()
	name := o.names[int(k.Interface)]
	o.mu.Unlock()
	return flow.Record{
		Interface:   name,
		Source:      netip.AddrPortFrom(netip.AddrFrom16(k.Source).Unmap(), k.SourcePort),
		Destination: netip.AddrPortFrom(netip.AddrFrom16(k.Destination).Unmap(), k.DestinationPort),
		Protocol:    k.Protocol, Side: flow.Side(s.Role), Bytes: s.Bytes, Packets: s.Packets,
		First: time.Duration(s.First), Last: time.Duration(s.Last), End: end,
	}
}

// sinceBoot is the program's clock.
func sinceBoot() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}

// Sweep takes the flows that were silent for Idle, and closed ones, from the map: the program sees a silence only when
// something more is sent. Those that were silent for Gap stay, since they may go on: the entry has the side of the connection. Evicted is how many flows, the oldest, have made room for others since Open.
func (o *Observer) Sweep() (ended []flow.Record, evicted uint64, err error) {
	before, err := o.Counts()
	if err != nil {
		return nil, 0, err
	}
	ended, left, err := o.sweep()
	if err != nil {
		return ended, 0, err
	}
	// Flows that begin or end meanwhile make it less, never more.
	after, err := o.Counts()
	if gone := after.swept + uint64(left); gone < before.created {
		evicted = before.created - gone
	}
	return ended, evicted, err
}

func (o *Observer) sweep() (ended []flow.Record, left int, err error) {
	now, err := sinceBoot()
	if err != nil {
		return nil, 0, err
	}
	o.forget(now)
	const batch = 1024
	keys, states := make([]observeKey, batch), make([]observeState, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := o.objects.Flows.BatchLookup(&cursor, keys, states, nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			return ended, left, fmt.Errorf("reading the flows: %w", err)
		}
		for i := range n {
			var s observeState
			if now-time.Duration(states[i].Last) <= o.idle {
				left++
				continue
			}
			switch err := o.objects.Flows.LookupAndDelete(&keys[i], &s); {
			case errors.Is(err, ebpf.ErrKeyNotExist): // it has ended meanwhile
				continue
			case err != nil:
				return ended, left, fmt.Errorf("taking a flow: %w", err)
			}
			o.mu.Lock()
			o.swept++
			o.mu.Unlock()
			if s.Bytes > 0 {
				ended = append(ended, o.record(&keys[i], &s, flow.Idle))
			}
		}
		if last {
			return ended, left, nil
		}
	}
}

// Counts are totals since Open. Packets without a flow are other protocols, cut ones, and later fragments of IP packets.
type Counts struct {
	Opened                uint64 // flows
	Lost                  uint64 // records that found the ring buffer full
	Unkept                uint64 // packets whose flow found no room
	Other, Cut, Fragments uint64 // packets

	created, swept uint64 // entries of the map
}

// Counts returns them.
func (o *Observer) Counts() (Counts, error) {
	var c Counts
	for which, to := range map[observeCounter]*uint64{
		observeCounterCREATED: &c.created, observeCounterOPENED: &c.Opened, observeCounterLOST: &c.Lost,
		observeCounterUNKEPT: &c.Unkept, observeCounterOTHER: &c.Other, observeCounterCUT: &c.Cut, observeCounterFRAGMENT: &c.Fragments,
	} {
		var values []uint64
		if err := o.objects.Counters.Lookup(uint32(which), &values); err != nil {
			return c, fmt.Errorf("reading the counters: %w", err)
		}
		for _, v := range values {
			*to += v
		}
	}
	o.mu.Lock()
	c.swept = o.swept
	o.mu.Unlock()
	return c, nil
}

// Health is how many packets the program has seen, and how many the watched interfaces have counted meanwhile by
// themselves. A detached program sees no packets.
func (o *Observer) Health() (seen, counted uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for index, w := range o.watched {
		now, err := w.packets()
		if err != nil {
			continue // it is deleted, and the next Watch removes it
		}
		var traffic []observeTraffic
		if err := o.objects.Interfaces.Lookup(uint32(index), &traffic); err != nil {
			return 0, 0, fmt.Errorf("%s: reading what was seen: %w", w.Name, err)
		}
		for _, t := range traffic {
			if w.Veth {
				seen += t.Packets
			} else {
				seen += t.Segments
			}
		}
		counted += now - min(now, w.base)
	}
	return seen, counted, nil
}
