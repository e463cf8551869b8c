package node

import (
	"errors"
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
)

// ours is the handle of the root queueing discipline that an order makes: no tool takes it by itself.
const ours = 0x5f1a

// firstClass is the first band's class; those of the others follow. There are always as many as there may be bands, so that a change of
// their number touches no queue.
const firstClass = 0x10

func classOf(band int) uint32 { return netlink.MakeHandle(ours, firstClass+uint16(band)) }

// quantum is the amount that a class sends before the next of its level does: one packet, in bytes.
const quantum = 1514

// root returns the queueing discipline that somebody has put at an interface's root, or nil for the kernel's own.
func root(l netlink.Link) (netlink.Qdisc, error) {
	list, err := netlink.QdiscList(l)
	if err != nil {
		return nil, fmt.Errorf("%s: listing queueing disciplines: %w", l.Attrs().Name, err)
	}
	for _, q := range list {
		if q.Attrs().Parent == netlink.HANDLE_ROOT && q.Attrs().Handle != 0 {
			return q, nil
		}
	}
	return nil, nil
}

func isOurs(q netlink.Qdisc) bool {
	return q != nil && q.Type() == "htb" && q.Attrs().Handle == netlink.MakeHandle(ours, 0)
}

// ErrForeign is the error where somebody else orders an uplink's queue.
var ErrForeign = errors.New("it is left alone")

// shapeable returns an interface. It is an error where somebody else orders its queue.
func shapeable(uplink string) (netlink.Link, error) {
	l, err := netlink.LinkByName(uplink)
	if err != nil {
		return nil, fmt.Errorf("uplink %s: %w", uplink, err)
	}
	if kind := l.Attrs().EncapType; kind != "ether" && kind != "loopback" {
		return nil, fmt.Errorf("uplink %s: its packets have no Ethernet header (%s)", uplink, kind)
	}
	q, err := root(l)
	if err != nil {
		return nil, err
	}
	if q != nil && !isOurs(q) {
		return nil, fmt.Errorf("uplink %s: somebody has put the queueing discipline %s %s there: %w", uplink, q.Type(), netlink.HandleStr(q.Attrs().Handle), ErrForeign)
	}
	return l, nil
}

// unseen is the class of packets that no program has seen. While no program is attached it takes all, in one queue, as
// before.
const unseen = flow.MostBands

// shape makes HTB and its classes, or changes them to this rate and floor.
func shape(index int, rate, floor float64) error {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return err
	}
	q, err := root(l)
	if err != nil {
		return err
	}
	handle := netlink.MakeHandle(ours, 0)
	if q == nil {
		htb := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: index, Handle: handle, Parent: netlink.HANDLE_ROOT})
		htb.Defcls = firstClass + unseen
		if err := netlink.QdiscAdd(htb); err != nil {
			return fmt.Errorf("%s: HTB: %w", l.Attrs().Name, err)
		}
	}
	all := netlink.MakeHandle(ours, 1)
	bits := expressible(rate)
	least := expressible(rate * floor)
	if err := class(index, handle, all, bits, bits, 0); err != nil {
		return fmt.Errorf("%s: the class of %d bit/s: %w", l.Attrs().Name, bits, err)
	}
	for band := range flow.MostBands + 1 {
		prio := uint32(band)
		if band == unseen {
			prio = flow.MostBands / 2
		}
		if err := class(index, all, classOf(band), least, bits, prio); err != nil {
			return fmt.Errorf("%s: the class of band %d, %d bit/s: %w", l.Attrs().Name, band+1, least, err)
		}
	}
	return nil
}

// expressible is the rate in bits per second, but for multiples of 2³² bytes per second: the library would send their
// lower half, 0.
func expressible(rate float64) uint64 {
	bits := uint64(math.Ceil(rate/8)) * 8
	if bits/8&math.MaxUint32 == 0 {
		bits += 8
	}
	return bits
}

// burst is a millisecond, or two packets: otherwise the time lost to a late timer would not be recovered.
func burst(bits uint64) uint32 { return uint32(max(bits/8/1000, 2*quantum)) }

func class(index int, parent, handle uint32, rate, most uint64, prio uint32) error {
	return netlink.ClassReplace(netlink.NewHtbClass(netlink.ClassAttrs{LinkIndex: index, Parent: parent, Handle: handle}, netlink.HtbClassAttrs{
		Rate: rate, Ceil: most, Buffer: burst(rate), Cbuffer: burst(most), Quantum: quantum, Prio: prio,
	}))
}

// unshape removes HTB, if it is ours, and restores the interface's queue length, which the kernel raises from 0 for a
// queueing discipline. A deleted interface or HTB is no error.
func unshape(index, queue int) error {
	l, err := netlink.LinkByIndex(index)
	if errors.As(err, &netlink.LinkNotFoundError{}) || errors.Is(err, unix.ENODEV) {
		return nil
	} else if err != nil {
		return err
	}
	q, err := root(l)
	if err != nil || !isOurs(q) {
		return err
	}
	err = netlink.QdiscDel(q)
	if l.Attrs().TxQLen != queue {
		err = errors.Join(err, netlink.LinkSetTxQLen(l, queue))
	}
	return err
}

// readShape adds the state of the uplink and its classes.
func (s *OrderStatus) readShape(index int) error {
	l, err := netlink.LinkByIndex(index)
	if index == 0 || errors.As(err, &netlink.LinkNotFoundError{}) || errors.Is(err, unix.ENODEV) {
		return nil
	} else if err != nil {
		return err
	}
	s.Uplink = l.Attrs().Name
	q, err := root(l)
	if err != nil || !isOurs(q) {
		return err
	}
	classes, err := netlink.ClassList(l, netlink.HANDLE_NONE)
	if err != nil {
		return fmt.Errorf("%s: listing classes: %w", s.Uplink, err)
	}
	s.Shaping = true
	for _, c := range classes {
		htb, ok := c.(*netlink.HtbClass)
		if !ok {
			continue
		}
		if htb.Handle == netlink.MakeHandle(ours, 1) {
			s.Rate = float64(htb.Rate) * 8
		}
		if htb.Handle == classOf(unseen) && htb.Statistics != nil && htb.Statistics.Basic != nil {
			s.Unseen = uint64(htb.Statistics.Basic.Packets)
		}
		for band := range s.Bands {
			if htb.Handle != classOf(band) {
				continue
			}
			s.Floor = float64(htb.Rate) * 8
			if htb.Statistics != nil && htb.Statistics.Queue != nil {
				s.Bands[band].Dropped = uint64(htb.Statistics.Queue.Drops)
				s.Bands[band].Waiting = uint64(htb.Statistics.Queue.Backlog)
			}
		}
	}
	if s.Rate > 0 {
		s.Floor /= s.Rate
	}
	return nil
}
