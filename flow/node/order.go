package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
)

// DefaultPins is the folder in which the order's program and maps stay when no process holds them.
const DefaultPins = "/sys/fs/bpf/sigma-flow"

// Bounds of OrderOptions, and the default of Floor.
const (
	LeastRate    = 1e6
	MostRate     = 1e12
	LeastFloor   = .001
	MostFloor    = .05
	DefaultFloor = .001
	LeastGap     = 20 * time.Millisecond // the program's clock has the resolution of the kernel's ticks
	MostGap      = time.Hour
)

// OrderOptions are the options of an order on an uplink. Zero fields have their default, except if noted.
type OrderOptions struct {
	Uplink     string          // required
	Rate       float64         // bits per second that the uplink sends, required: the queue has to be here and not behind
	Thresholds flow.Thresholds // required
	Floor      float64         // share of the rate that each band has at least
	Gap        time.Duration   // so long after all of a flow was acknowledged it begins again in the first band
	Flows      int             // at a time
	Pins       string          // folder of a bpffs, which is made
	DSCP       bool            // write that of the band into packets of flows that have none
	Scope      []netip.Addr    // whose flows are in bands by bytes; nil = all. Others go to the middle band

	idle time.Duration // a silence that ends a message in any case; 0 = DefaultIdle, or Gap where that is longer
}

func (o *OrderOptions) fill() error {
	o.Floor = cmp.Or(o.Floor, DefaultFloor)
	o.Gap = cmp.Or(o.Gap, DefaultGap)
	o.idle = max(o.Gap, cmp.Or(o.idle, DefaultIdle))
	o.Flows = cmp.Or(o.Flows, DefaultFlows)
	o.Pins = cmp.Or(o.Pins, DefaultPins)
	switch {
	case o.Uplink == "":
		return errors.New("uplink: none is named")
	case math.IsNaN(o.Rate) || o.Rate < LeastRate || o.Rate > MostRate:
		return fmt.Errorf("rate: %v bit/s, want 1M to 1T", o.Rate)
	case math.IsNaN(o.Floor) || o.Floor < LeastFloor || o.Floor > MostFloor:
		return fmt.Errorf("floor: %v of the rate, want %v to %v", o.Floor, LeastFloor, MostFloor)
	case o.Gap < LeastGap || o.Gap > MostGap:
		return fmt.Errorf("gap: %v, want %v to %v", o.Gap, LeastGap, MostGap)
	case o.Flows < 1 || o.Flows > math.MaxInt32:
		return fmt.Errorf("flows: %d, want 1 to %d", o.Flows, math.MaxInt32)
	}
	return errors.Join(checkScope(o.Scope), o.Thresholds.Validate())
}

// ErrNoOrder is the error where nothing is pinned.
var ErrNoOrder = errors.New("no order is on")

// Orderable returns the reason why no order could be turned on there: no such uplink, a queueing discipline of somebody
// else's, no bpffs.
func Orderable(uplink, pins string) error {
	_, err := shapeable(uplink)
	return errors.Join(err, isPinnable(pins))
}

// TurnOn orders the flows of an uplink until TurnOff, also when the process has ended: a program sets each packet's
// band, and a class of HTB for each band sends it. An active order gets the new settings, and no packet sees half of
// them. A queueing discipline that somebody has put on the uplink is left alone: that is an error, and nothing is
// changed. The id is for TurnOff.
func TurnOn(o OrderOptions) (id uint64, err error) {
	if err := o.fill(); err != nil {
		return 0, err
	}
	up, err := shapeable(o.Uplink)
	if err != nil {
		return 0, err
	}
	made, err := makePins(o.Pins)
	if err != nil {
		return 0, err
	}
	unlock, err := lock(o.Pins)
	if err != nil {
		return 0, err
	}
	defer unlock()
	old, at, err := pinned(o.Pins)
	switch {
	case err != nil && !errors.Is(err, ErrNoOrder):
		return 0, err
	case old != nil && at == 0: // its interface is deleted
		if err := errors.Join(old.Close(), turnOff(o.Pins, nil, false)); err != nil {
			return 0, err
		}
		old = nil
	}
	index := up.Attrs().Index
	if old == nil {
		return o.begin(up, made)
	}
	defer func() { _ = old.Close() }() // the pin holds it
	settings, err := readSettings(o.Pins)
	if err != nil {
		return 0, err
	}
	if at != index {
		return 0, fmt.Errorf("an order is on at the interface of index %d, and %s has %d: turn it off first", at, o.Uplink, index)
	}
	var before OrderStatus
	if err := before.readShape(index); err != nil {
		return 0, err
	}
	objects, err := o.load(true)
	if errors.Is(err, errOtherVersion) { // for a moment there is no order
		if err := turnOff(o.Pins, &settings, false); err != nil {
			return 0, err
		}
		if up, err = shapeable(o.Uplink); err != nil {
			return 0, err
		}
		return o.begin(up, false)
	} else if err != nil {
		return 0, err
	}
	defer func() { _ = objects.Close() }() // pins keep the objects that stay
	if err := shape(index, o.Rate, o.Floor); err != nil {
		if before.Shaping {
			err = errors.Join(err, shape(index, before.Rate, before.Floor))
		}
		return 0, err
	}
	acks, err := link.LoadPinnedLink(filepath.Join(o.Pins, pinAcks), nil)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", o.Pins, err)
	}
	defer func() { _ = acks.Close() }() // the pin holds it
	if err := errors.Join(acks.Update(objects.Acknowledged), old.Update(o.program(objects))); err != nil {
		return 0, fmt.Errorf("taking over the programs of an earlier order: %w", err)
	}
	settings.Dscp = o.dscp()
	if err := setScope(objects.Scope, &settings, o.Scope); err != nil {
		return 0, err
	}
	return objects.set(settings, o.Thresholds)
}

// begin turns an order on if there is none. Everything is undone if it fails.
func (o *OrderOptions) begin(up netlink.Link, made bool) (id uint64, err error) {
	index := up.Attrs().Index
	// The remains of an earlier process that was killed before it had a link.
	_ = removePins(o.Pins, false) // most often they are not there
	settings := orderBands{Queue: uint32(up.Attrs().TxQLen), Dscp: o.dscp()}
	defer func() {
		if err != nil {
			err = errors.Join(err, turnOff(o.Pins, &settings, made))
		}
	}()
	if settings.Network, err = network(); err != nil {
		return 0, err
	}
	objects, err := o.load(false)
	if err != nil {
		return 0, err
	}
	defer func() { _ = objects.Close() }() // pins keep the objects that stay
	if err := setScope(objects.Scope, &settings, o.Scope); err != nil {
		return 0, err
	}
	if id, err = objects.set(settings, o.Thresholds); err != nil {
		return 0, err
	}
	if err := o.attach(index, objects.Acknowledged, ebpf.AttachTCXIngress, pinAcks); err != nil {
		return 0, err
	}
	if err := o.attach(index, o.program(objects), ebpf.AttachTCXEgress, pinLink); err != nil {
		return 0, err
	}
	return id, shape(index, o.Rate, o.Floor) // the pin of the link is there before HTB: TurnOff finds both
}

// attach attaches a program before others, as one that ends the chain would keep packets from it, and pins the link.
func (o *OrderOptions) attach(index int, p *ebpf.Program, at ebpf.AttachType, pin string) error {
	l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: p, Attach: at, Anchor: link.Head()})
	if err != nil {
		return fmt.Errorf("%s: %w", o.Uplink, err)
	}
	defer func() { _ = l.Close() }() // the pin holds it
	if err := l.Pin(filepath.Join(o.Pins, pin)); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", o.Pins, err), l.Detach())
	}
	return nil
}

// errOtherVersion is the error where the maps of an earlier order are not those of this program.
var errOtherVersion = errors.New("the order that is on is of another version")

// load loads the program, with the maps of an earlier order where there is one.
func (o *OrderOptions) load(again bool) (*orderObjects, error) {
	spec, err := loadOrder()
	if err != nil {
		return nil, err
	}
	var specs orderSpecs
	if err := spec.Assign(&specs); err != nil {
		return nil, err
	}
	var tick unix.Timespec // the resolution of this clock is a tick: clock_getres(2)
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return nil, err
	}
	if err := errors.Join(specs.GapNs.Set(uint64(o.Gap)), specs.IdleNs.Set(uint64(o.idle)), specs.TickNs.Set(uint64(tick.Nano()))); err != nil {
		return nil, err
	}
	specs.Flows.MaxEntries = uint32(o.Flows)
	options := &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{}}
	defer func() {
		for _, m := range options.MapReplacements {
			_ = m.Close() // the objects have their own
		}
	}()
	if again {
		for _, name := range pinnedMaps {
			m, err := ebpf.LoadPinnedMap(filepath.Join(o.Pins, name), nil)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%s: %w", name, errOtherVersion)
			} else if err != nil {
				return nil, fmt.Errorf("pins of an earlier order in %s: %s: %w", o.Pins, name, err)
			}
			options.MapReplacements[name] = m
		}
		specs.Flows.MaxEntries = options.MapReplacements[pinFlows].MaxEntries()
	}
	objects := &orderObjects{}
	if err := spec.LoadAndAssign(objects, options); err != nil {
		if errors.Is(err, ebpf.ErrMapIncompatible) {
			err = errOtherVersion
		}
		return nil, fmt.Errorf("loading the program: %w", err)
	}
	if again {
		return objects, nil
	}
	for name, m := range map[string]*ebpf.Map{pinFlows: objects.Flows, pinSettings: objects.Settings, pinCurrent: objects.Current, pinSent: objects.Sent, pinCounters: objects.Counters, pinHints: objects.Hints, pinScope: objects.Scope} {
		if err := m.Pin(filepath.Join(o.Pins, name)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", o.Pins, err), objects.Close())
		}
	}
	return objects, nil
}

func (o *orderObjects) inForce() settingsMaps { return settingsMaps{o.Settings, o.Current} }

// set makes the thresholds those of the next packet. The id is that of no other update since the machine's start.
func (o *orderObjects) set(present orderBands, t flow.Thresholds) (id uint64, err error) {
	now, err := sinceBoot()
	if err != nil {
		return 0, err
	}
	b := orderBands{
		Sequence: present.Sequence + 1, Id: max(uint64(now), present.Id+1), Network: present.Network, Queue: present.Queue,
		Count: uint32(len(t) + 1), First: classOf(0), Hints: present.Hints, Scoped: present.Scoped, Dscp: present.Dscp,
	}
	for i, v := range t {
		b.Above[i] = uint64(v)
	}
	return b.Id, o.inForce().write(&b)
}

// network is the cookie of this thread's network namespace.
func network() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was sent
	return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

// ErrOtherOrder is the error where somebody has set the order that is on after the one that is to be turned off.
var ErrOtherOrder = errors.New("somebody has changed the order meanwhile")

// TurnOff removes HTB and then the program, and leaves the uplink as it was found. With an id of TurnOn it does not
// touch a later order: ErrOtherOrder. It returns ErrNoOrder if there is none.
func TurnOff(pins string, id uint64) error {
	pins = cmp.Or(pins, DefaultPins)
	if isPinnable(pins) != nil {
		return ErrNoOrder
	}
	_, linked := os.Stat(filepath.Join(pins, pinLink))
	unlock, err := lock(pins)
	switch {
	case err != nil && errors.Is(linked, fs.ErrNotExist):
		return ErrNoOrder
	case err != nil:
		return err
	}
	defer unlock()
	l, _, err := pinned(pins)
	if errors.Is(err, ErrNoOrder) { // a process was killed before it had a link, or after it had taken it off
		return errors.Join(err, removePins(pins, true))
	} else if err != nil {
		return err
	}
	_ = l.Close() // the pin holds it
	settings, err := readSettings(pins)
	switch {
	case err != nil:
		return err
	case id != 0 && settings.Id != id:
		return ErrOtherOrder
	}
	return turnOff(pins, &settings, true)
}

// turnOff may be killed at any point: the remainder is found by the pin of the link, or is only maps.
func turnOff(pins string, settings *orderBands, remove bool) error {
	var errs []error
	if l, index, err := pinned(pins); err == nil {
		if index != 0 { // 0 is a deleted interface
			if err := unshape(index, int(settings.Queue)); err != nil {
				return errors.Join(err, l.Close()) // the pin stays, or nothing would find HTB again
			}
			errs = append(errs, l.Detach()) // a link whose pin is removed is detached later
		}
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, removePins(pins, remove))...)
}
