package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/sigma-scheduler/sigma/flow"
)

// SetHints makes these the sizes of flows in the active order, for their next packets; without hints it removes all. It
// returns ErrNoOrder if there is no order. Addresses and ports are those of packets on the uplink.
func SetHints(pins string, h flow.Hints) error {
	pins = cmp.Or(pins, DefaultPins)
	if len(h) > flow.MostHints {
		return fmt.Errorf("%d hints, want at most %d", len(h), flow.MostHints)
	}
	for k, size := range h {
		if size < 1 || size > flow.LargestThreshold {
			return fmt.Errorf("hint of %v port %d: %d bytes, want 1 to 1T", k.Address, k.Port, size)
		}
	}
	err := change(pins, pinHints, func(m *ebpf.Map, to settingsMaps, settings orderBands) error { return setHints(m, to, settings, h) })
	if errors.Is(err, fs.ErrNotExist) && len(h) == 0 {
		return nil // the order of an earlier version had no hints
	}
	return err
}

// setHints changes the map first and then the number of its state, which makes flows look up their hint again.
func setHints(hints *ebpf.Map, to settingsMaps, settings orderBands, h flow.Hints) error {
	old, err := listHints(hints)
	if err != nil {
		return err
	}
	for k := range old {
		if _, stays := h[k]; !stays {
			if err := hints.Delete(placeOf(k)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("taking a hint away: %w", err)
			}
		}
	}
	for k, size := range h {
		if err := hints.Put(placeOf(k), uint64(size)); err != nil {
			return fmt.Errorf("writing a hint: %w", err)
		}
	}
	now, err := sinceBoot()
	if err != nil {
		return err
	}
	if settings.Hints = max(uint64(now), settings.Hints+1); len(h) == 0 {
		settings.Hints = 0
	}
	return to.write(&settings)
}

func placeOf(k flow.HintKey) *orderPlace { return &orderPlace{Source: k.Address.As16(), Port: k.Port} }

func readHints(pins string) (flow.Hints, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pins, pinHints), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", pins, pinHints, err)
	}
	defer func() { _ = m.Close() }() // only read
	return listHints(m)
}

func listHints(m *ebpf.Map) (flow.Hints, error) {
	h := flow.Hints{}
	var at orderPlace
	var size uint64
	all := m.Iterate()
	for all.Next(&at, &size) {
		h[flow.HintKey{Address: netip.AddrFrom16(at.Source).Unmap(), Port: at.Port}] = int64(size)
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("reading hints: %w", err)
	}
	return h, nil
}
