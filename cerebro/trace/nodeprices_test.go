package trace_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func TestReadNodePrices(t *testing.T) {
	const header = "instance_type,capacity_type,region,price_per_hour,currency\n"
	read := func(text string) ([]trace.NodePrice, string, error) {
		path := filepath.Join(t.TempDir(), "prices.csv")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return trace.ReadNodePrices(path)
	}
	list, currency, err := read(header + "m5.large,spot,,0.04,EUR\nm5.large,,eu-west-1,0.107,EUR\n,,,1,EUR\n")
	require.NoError(t, err)
	require.Equal(t, "EUR", currency)
	require.Equal(t, []trace.NodePrice{
		{InstanceType: "m5.large", CapacityType: "spot", PerHour: .04},
		{InstanceType: "m5.large", Region: "eu-west-1", PerHour: .107},
		{PerHour: 1},
	}, list)
	_, currency, err = read("instance_type,capacity_type,region,price_per_hour\nm5.large,,,1\n")
	require.NoError(t, err)
	require.Empty(t, currency)

	for text, want := range map[string]string{
		"":     "prices.csv:1: no header line",
		header: "prices.csv: no prices",
		"instance_type,region,price_per_hour\nx,,1\n":          `prices.csv:1: missing column "capacity_type"`,
		header + "x,,,0,EUR\n":                                 `prices.csv:2: price_per_hour "0": want more than 0`,
		header + "x,,,,EUR\n":                                  `prices.csv:2: price_per_hour "": want more than 0`,
		header + "x,,,-1,EUR\n":                                `prices.csv:2: price_per_hour "-1": negative`,
		header + "x,,,1 EUR,EUR\n":                             `prices.csv:2: price_per_hour "1 EUR": `,
		header + "x,,,1,EUR\ny,,,1,USD\n":                      `prices.csv:3: currency "USD": the lines before have "EUR"; want one currency`,
		header + "x,,,1,EU R\n":                                `prices.csv:2: currency "EU R": want a currency of at most 8 signs`,
		header + "x,,,1,\x1b[31mEUR\n":                         `want a currency of at most 8 signs`,
		header + "x,,,1,EUR\ny,,,1,\n":                         `prices.csv:3: currency "": the lines before have "EUR"`,
		header + "x,Spot,,1,EUR\n":                             `prices.csv:2: capacity_type "Spot": want on-demand, spot, reserved or nothing`,
		header + "x,spot,eu,1,EUR\ny,,,1,EUR\nx,spot,eu,2,EUR": `prices.csv:4: line 2 is for the same nodes`,
	} {
		_, _, err := read(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzNodePrices(f *testing.F) {
	f.Add("instance_type,capacity_type,region,price_per_hour,currency\nm7i.4xlarge,spot,eu-central-1,0.31,EUR\nm7i.4xlarge,,,0.92,EUR\n")
	f.Add("price_per_hour\n1e-9\n")
	f.Add("instance_type,price_per_hour\na,0\n")
	path := filepath.Join(f.TempDir(), "prices.csv")
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		list, _, err := trace.ReadNodePrices(path)
		if err != nil {
			require.Contains(t, err.Error(), "prices.csv")
			return
		}
		require.NotEmpty(t, list)
		for _, p := range list {
			require.True(t, p.PerHour > 0 && !math.IsInf(p.PerHour, 0), p.PerHour)
		}
	})
}
