package trace

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// FormatDevices is the text of the devices column: the indices joined by |,
// each after its dimension when several dimensions are devices.
func FormatDevices(in *binpack.Instance, devices []Device) string {
	kinds := 0
	for _, dim := range in.Dimensions {
		if dim.Device {
			kinds++
		}
	}
	var buf []byte
	for i, device := range devices {
		if i > 0 {
			buf = append(buf, '|')
		}
		if kinds > 1 {
			buf = append(append(buf, in.Dimensions[device.Dimension].Name...), ':')
		}
		buf = strconv.AppendInt(buf, int64(device.Index), 10)
	}
	return string(buf)
}

// ParseDevices reads 0|1, or gpu:0|nic:1 with several device dimensions, in
// order of dimension and index.
func ParseDevices(in *binpack.Instance, text string) ([]Device, error) {
	if text == "" {
		return nil, nil
	}
	var devices []Device
	for part := range strings.SplitSeq(text, "|") {
		dimension, index, named := strings.Cut(part, ":")
		if !named {
			index = part
		}
		d, err := deviceDimension(in, dimension, named)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(index, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("device %q: not an index", part)
		}
		devices = append(devices, Device{Dimension: int32(d), Index: int32(n)})
	}
	slices.SortFunc(devices, func(a, b Device) int {
		if a.Dimension != b.Dimension {
			return int(a.Dimension) - int(b.Dimension)
		}
		return int(a.Index) - int(b.Index)
	})
	return devices, nil
}

// deviceDimension finds the device dimension by name, or the only one there is.
func deviceDimension(in *binpack.Instance, name string, named bool) (int, error) {
	found := -1
	for d, dim := range in.Dimensions {
		if !dim.Device || named && dim.Name != name {
			continue
		}
		if found >= 0 {
			return 0, errors.New("several dimensions are devices: want dimension:index")
		}
		found = d
	}
	if found < 0 && named {
		return 0, fmt.Errorf("%q is not a device dimension", name)
	} else if found < 0 {
		return 0, errors.New("no dimension is a device")
	}
	return found, nil
}

// checkDevices compares the devices of an item with the demand of its app and the
// devices of its machine.
func checkDevices(in *binpack.Instance, devices []Device, demand, capacity []int64) error {
	used := make([]int64, len(in.Dimensions))
	for i, device := range devices {
		d := device.Dimension
		if int64(device.Index) >= capacity[d]/in.Dimensions[d].One {
			return fmt.Errorf("device index %d out of range: the machine has %s of %s",
				device.Index, FormatQuantity(capacity[d], in.Dimensions[d]), in.Dimensions[d].Name)
		}
		if i > 0 && devices[i-1] == device {
			return fmt.Errorf("device %d is listed twice", device.Index)
		}
		used[d]++
	}
	for d, dim := range in.Dimensions {
		if !dim.Device {
			continue
		}
		if want := (demand[d] + dim.One - 1) / dim.One; used[d] != want {
			return fmt.Errorf("%d of %s, want %d", used[d], dim.Name, want)
		}
	}
	return nil
}
