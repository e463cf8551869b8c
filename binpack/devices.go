package binpack

import "fmt"

func (s *room) newDevices(kind *Kind) []int64 {
	total := 0
	for _, n := range s.maxDevices {
		total += n
	}
	shares := make([]int64, total)
	at := 0
	for i, d := range s.deviceDims {
		one := s.inst.Dimensions[d].One
		for j := range int(kind.Capacity[d] / one) {
			shares[at+j] = one
		}
		at += s.maxDevices[i]
	}
	return shares
}

func (s *room) devicesFit(app *App, m int32) bool {
	at := 0
	for i, d := range s.deviceDims {
		shares := s.devices[m][at : at+s.maxDevices[i]]
		at += s.maxDevices[i]
		need, one := app.Demand[d], s.inst.Dimensions[d].One
		if need == 0 {
			continue
		}
		left := need / one
		if need < one {
			left = 1
		}
		for _, share := range shares {
			if share >= min(need, one) {
				left--
			}
		}
		if left > 0 {
			return false
		}
	}
	return true
}

// A Device is one device of a machine.
type Device struct {
	Dimension, Index int32
}

// giveBack returns an app's shares of devices.
func (s *room) giveBack(a *App, m int32, devices []Device) {
	for _, dev := range devices {
		*s.share(m, dev) += min(a.Demand[dev.Dimension], s.inst.Dimensions[dev.Dimension].One)
	}
}

// share is the free share of a device, nil when there is no such device.
func (s *room) share(m int32, dev Device) *int64 {
	at := 0
	for i, d := range s.deviceDims {
		if d == int(dev.Dimension) {
			if dev.Index < 0 || int(dev.Index) >= s.maxDevices[i] {
				return nil
			}
			return &s.devices[m][at+int(dev.Index)]
		}
		at += s.maxDevices[i]
	}
	return nil
}

// Devices gives the free share of each device of a machine in a device
// dimension, in units. Read only.
func (s *room) Devices(m int32, dimension int) []int64 {
	at := 0
	for i, d := range s.deviceDims {
		if d == dimension {
			n := int(s.Capacity(m)[d] / s.inst.Dimensions[d].One)
			return s.devices[m][at : at+n]
		}
		at += s.maxDevices[i]
	}
	return nil
}

func (s *room) takeDevices(item Item, app *App, m int32, chooser DeviceChooser) []Device {
	var used []Device
	for _, d := range s.deviceDims {
		need, one := app.Demand[d], s.inst.Dimensions[d].One
		if need == 0 {
			continue
		}
		free := s.Devices(m, d)
		s.deviceOut = s.deviceOut[:0]
		if chooser != nil {
			s.deviceOut = chooser.ChooseDevices(item, m, d, free, s.deviceOut)
		} else {
			s.deviceOut = smallestDevices(free, need, one, s.deviceOut)
		}
		for _, i := range s.deviceOut {
			if free[i] < min(need, one) {
				panic(fmt.Sprintf("binpack: device %d of machine %d has %d free, %d needed", i, m, free[i], min(need, one)))
			}
			free[i] -= min(need, one)
			used = append(used, Device{int32(d), i})
		}
		if want := max(1, need/one); int64(len(s.deviceOut)) != want {
			panic(fmt.Sprintf("binpack: %d devices chosen, %d needed", len(s.deviceOut), want))
		}
	}
	return used
}

// smallestDevices takes the smallest sufficient free shares, lowest index first.
func smallestDevices(free []int64, need, one int64, out []int32) []int32 {
	if need >= one {
		for i, share := range free {
			if share == one && int64(len(out)) < need/one {
				out = append(out, int32(i))
			}
		}
		return out
	}
	best := -1
	for i, share := range free {
		if share >= need && (best < 0 || share < free[best]) {
			best = i
		}
	}
	if best >= 0 {
		out = append(out, int32(best))
	}
	return out
}
