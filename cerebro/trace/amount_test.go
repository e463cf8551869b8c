package trace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func TestFormatAmount(t *testing.T) {
	for _, c := range []struct {
		value, one int64
		want       string
	}{
		{0, 1, "0"},
		{4, 1, "4"},
		{-2, 1, "-2"},
		{96, 1, "96"},
		{250000, 1, "250000"},
		{470, 1000, "470m"},
		{96500, 1000, "96500m"},
		{128500, 1000, "128.5"},
		{2000, 1000, "2"},
		{4686045, 1e6, "4.686"},
		{-4686045, 1e6, "-4.686"},
		{4096, 1, "4Ki"},
		{8 << 30, 1, "8Gi"},
		{-8 << 30, 1, "-8Gi"},
		{4 << 40, 1, "4096Gi"},
		{1537 << 20, 1, "1537Mi"},
		{16384516 << 10, 1, "15.625Gi"},
		{1234567 << 3, 1, "9.877M"},
		{60e9 + 1, 1, "60G"},
		{2_500_001, 1, "2.5M"},
	} {
		require.Equal(t, c.want, trace.FormatAmount(c.value, binpack.Dimension{One: c.one}), "%d of %d", c.value, c.one)
	}
}
