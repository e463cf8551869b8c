package node

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
)

// MostScope is how many addresses a scope may have.
const MostScope = 4096

func checkScope(scope []netip.Addr) error {
	if len(scope) > MostScope {
		return fmt.Errorf("scope: %d addresses, want at most %d", len(scope), MostScope)
	}
	for _, a := range scope {
		if !a.IsValid() {
			return errors.New("scope: an address is empty")
		}
	}
	return nil
}

// SetScope makes these the addresses whose flows are in bands by bytes, in the active order; nil makes it all. The
// flows of others use the middle band, as do packets of no flow. It returns ErrNoOrder if there is no order.
func SetScope(pins string, scope []netip.Addr) error {
	pins = cmp.Or(pins, DefaultPins)
	if err := checkScope(scope); err != nil {
		return err
	}
	return change(pins, pinScope, func(m *ebpf.Map, to settingsMaps, settings orderBands) error {
		if err := setScope(m, &settings, scope); err != nil {
			return err
		}
		return to.write(&settings)
	})
}

// setScope makes the map that of a scope and sets in the settings, which are to be written after it, whether the map
// counts. Without a scope the map stays as it is: nothing reads it.
func setScope(m *ebpf.Map, settings *orderBands, scope []netip.Addr) error {
	if settings.Scoped = 0; scope == nil {
		return nil
	}
	settings.Scoped = 1
	old, err := listScope(m)
	if err != nil {
		return err
	}
	wanted := map[netip.Addr]bool{}
	for _, a := range scope {
		wanted[a.Unmap().WithZone("")] = true
	}
	for _, a := range old {
		if !wanted[a] {
			if err := m.Delete(addressOf(a)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("taking an address out of the scope: %w", err)
			}
		}
	}
	for a := range wanted {
		if err := m.Put(addressOf(a), uint32(1)); err != nil {
			return fmt.Errorf("writing an address of the scope: %w", err)
		}
	}
	return nil
}

func addressOf(a netip.Addr) *orderAddress { return &orderAddress{Source: a.As16()} }

func readScope(pins string) ([]netip.Addr, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pins, pinScope), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", pins, pinScope, err)
	}
	defer func() { _ = m.Close() }() // only read
	return listScope(m)
}

// listScope returns the addresses in their order, not nil.
func listScope(m *ebpf.Map) ([]netip.Addr, error) {
	list := []netip.Addr{}
	var at orderAddress
	var value uint32
	all := m.Iterate()
	for all.Next(&at, &value) {
		list = append(list, netip.AddrFrom16(at.Source).Unmap())
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("reading the scope: %w", err)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list, nil
}
