package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/golang/glog"
	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node"
)

// mostFlows are those that a map may have room for, of 56 bytes each.
const mostFlows = 1 << 24

// defaultTrial is how long an order stays without --for.
const defaultTrial = 10 * time.Minute

type orderOptions struct {
	node                     node.OrderOptions
	rate, thresholds, report string
	trial                    time.Duration
}

func orderCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "order",
		Short: "Send short flows first on this node's uplink",
		Long: `Order changes the queue in front of an uplink: a flow is in the first band until it has sent
as many bytes as the first threshold says, then in the next, and packets of an earlier band go
first. What "sigma-flow agent --observe" says should come before it.

Nothing is written into packets. A queueing discipline that somebody has put on the uplink is
left alone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.AddCommand(onCommand(), orderStatusCommand(), offCommand())
	return group
}

func pinsFlag(cmd *cobra.Command, pins *string) {
	cmd.Flags().StringVar(pins, "pins", node.DefaultPins, "folder of a bpffs where the kernel keeps the order")
}

func onCommand() *cobra.Command {
	o := &orderOptions{}
	cmd := &cobra.Command{
		Use:   "on --rate RATE (--thresholds LIST | --report URL|FOLDER)",
		Short: "Order the uplink's flows, for ten minutes unless --for says otherwise",
		Long: `On orders the uplink's flows, and takes the order off again after --for, or when it is
interrupted or loses its terminal. This process keeps the time: killed by kill -9 it leaves the
order on, as --for 0 does, with which it ends at once. Then the kernel goes on, until "sigma-flow
order off" or a restart of the node. Where an order is on already, it gets the new settings, and
no packet is lost; a trial leaves an order alone that was set after it.

The rate is what the uplink can really send: the queue has to be here, and not behind.`,
		Example: `  sigma-flow order on --uplink eth0 --rate 10G --thresholds 100k/1.8M/9.9M
  sigma-flow order on --uplink eth0 --rate 9.4G --report http://127.0.0.1:9907/report --for 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.node.Uplink, "uplink", "", "interface whose queue is ordered; empty: that of the default route")
	flags.StringVar(&o.rate, "rate", "", "bits per second that the uplink sends, such as 9.4G (required)")
	flags.StringVar(&o.thresholds, "thresholds", "", "bytes after which a flow leaves a band, such as 100k/1.8M/9.9M")
	flags.StringVar(&o.report, "report", "", "take the thresholds of an agent's report, by URL or --out folder")
	flags.Float64Var(&o.node.Floor, "floor", node.DefaultFloor, "share of the rate that each band has at least, .001 to .05")
	flags.DurationVar(&o.node.Gap, "gap", node.DefaultGap, "a message of a connection has ended so long after all of it was acknowledged, and the next begins in the first band, 20ms to 1h")
	flags.IntVar(&o.node.Flows, "flows", node.DefaultFlows, "flows at a time; beyond, the oldest begin again in the first band. An order that is on keeps its number")
	flags.DurationVar(&o.trial, "for", defaultTrial, "how long; 0: until it is turned off")
	pinsFlag(cmd, &o.node.Pins)
	cmd.MarkFlagsMutuallyExclusive("thresholds", "report")
	return cmd
}

func (o *orderOptions) check(ctx context.Context) (err error) {
	switch {
	case o.rate == "":
		return errors.New("--rate: say how many bits per second the uplink sends, such as 9.4G")
	case o.trial < 0:
		return fmt.Errorf("--for %v: want 0 or more", o.trial)
	case o.node.Floor == 0 || o.node.Gap == 0 || o.node.Flows < 1 || o.node.Flows > mostFlows || o.node.Pins == "":
		return fmt.Errorf("--floor %v, --gap %v, --flows %d, --pins %q: want none of them 0 or empty, and at most %d flows", o.node.Floor, o.node.Gap, o.node.Flows, o.node.Pins, mostFlows)
	case o.thresholds == "" && o.report == "":
		return errors.New("say --thresholds, such as 100k/1.8M/9.9M, or --report of an agent")
	}
	if o.node.Rate, err = flow.ParseAmount(o.rate); err != nil {
		return fmt.Errorf("--rate %w", err)
	}
	text := o.thresholds
	if o.report != "" {
		if text, err = proposed(ctx, o.report); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if o.node.Thresholds, err = flow.ParseThresholds(text); err != nil {
		if o.report != "" {
			return fmt.Errorf("--report: %s: thresholds: %w", o.report, err)
		}
		return fmt.Errorf("--thresholds: %w", err)
	}
	if o.node.Uplink == "" {
		uplink, err := node.FindUplink("")
		if err != nil {
			return fmt.Errorf("--uplink: %w", err)
		}
		o.node.Uplink = uplink.Name
	}
	return nil
}

// proposed are the thresholds that an agent's report proposes.
func proposed(ctx context.Context, from string) (string, error) {
	text, err := fetch(ctx, from)
	if err != nil {
		return "", err
	}
	r, err := parseReport(from, text)
	if err != nil {
		return "", err
	}
	if r.Thresholds == "" {
		return "", fmt.Errorf("%s: the agent proposes none yet: %s", from, r.Reason)
	}
	return r.Thresholds, nil
}

func (o *orderOptions) run(ctx context.Context) error {
	if err := o.check(ctx); err != nil {
		return err
	}
	id, err := node.TurnOn(o.node)
	if err != nil {
		return err
	}
	const on = "order on %s: a flow leaves a band after %v bytes, at %sbit/s; "
	if o.trial == 0 {
		glog.Infof(on+"sigma-flow order off takes it off", o.node.Uplink, o.node.Thresholds, flow.FormatAmount(o.node.Rate))
		return nil
	}
	glog.Infof(on+"for %v, or until this is interrupted", o.node.Uplink, o.node.Thresholds, flow.FormatAmount(o.node.Rate), o.trial)
	end := time.NewTimer(o.trial)
	defer end.Stop()
	select {
	case <-ctx.Done():
	case <-end.C:
	}
	return letGo(o.node.Pins, o.node.Uplink, id)
}

// letGo takes the order off, unless somebody has set another one.
func letGo(pins, uplink string, id uint64) error {
	err := node.TurnOff(pins, id)
	switch {
	case errors.Is(err, node.ErrNoOrder):
		glog.Info("somebody has taken the order off meanwhile")
	case errors.Is(err, node.ErrOtherOrder):
		glog.Info("somebody has set the order meanwhile: it stays on")
	case err != nil:
		return err
	default:
		glog.Infof("the order is off, and %s as it was", uplink)
	}
	return nil
}

func offCommand() *cobra.Command {
	pins := ""
	cmd := &cobra.Command{
		Use:   "off",
		Short: "Take the order off, and leave the uplink as it was found",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := node.TurnOff(pins, 0); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the order is off")
			return err
		},
	}
	pinsFlag(cmd, &pins)
	return cmd
}

func orderStatusCommand() *cobra.Command {
	pins, format := "", ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print what the order does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return fmt.Errorf("--format %q: want table or json", format)
			}
			s, err := node.ReadOrder(pins)
			if err != nil {
				return err
			}
			if format == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			return writeStatus(cmd.OutOrStdout(), &s)
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	pinsFlag(cmd, &pins)
	return cmd
}

func writeStatus(out io.Writer, s *node.OrderStatus) error {
	switch {
	case s.Uplink == "":
		fmt.Fprintln(out, "the uplink is gone, and the order with it; order off removes what is left")
	case !s.Shaping:
		fmt.Fprintf(out, "NOT ORDERED: the queueing discipline of %s is gone or somebody else's; order off takes away what is left\n", s.Uplink)
	default:
		fmt.Fprintf(out, "%s of %sbit/s, each band at least %.3g %% of it; the thresholds were set %d times\n", s.Uplink, flow.FormatAmount(s.Rate), s.Floor*100, s.Sequence)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "band\tfrom bytes\tpackets\tbytes\tdropped\twaiting\t")
	for i, b := range s.Bands {
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%d\t\n", i+1, flow.FormatAmount(float64(b.From)), b.Packets, b.Bytes, b.Dropped, b.Waiting)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d packets of no flow, in the middle band; %d packets whose flow found no room\n", s.NoFlow, s.Unkept)
	if s.Hints > 0 || s.Hinted > 0 {
		fmt.Fprintf(out, "%d addresses and ports have a size that is known, %d times a flow has had one after its first band\n", s.Hints, s.Hinted)
	}
	if s.Scope != nil {
		fmt.Fprintf(out, "flows from %d addresses are in bands by their bytes; %d packets of others, in the middle band\n", len(s.Scope), s.Outside)
	}
	if s.DSCP != nil {
		fmt.Fprintf(out, "%d packets of flows had no DSCP, and got that of their band: %v\n", s.Marked, s.DSCP)
	}
	if s.Unseen > 0 {
		fmt.Fprintf(out, "%d packets had no band: they were sent before the order was on, or another program of %s ends before it\n", s.Unseen, s.Uplink)
	}
	return nil
}
