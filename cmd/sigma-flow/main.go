// Command sigma-flow watches the flows of a node, estimates their gain from bands, and orders them.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/cmd/internal/start"
	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/observe"
)

// version is set by the linker: -ldflags '-X main.version=…'.
var version string

func main() {
	var ends []os.Signal
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		ends = append(ends, syscall.SIGHUP)
	}
	os.Exit(start.Program(command(), ends...))
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:     "sigma-flow",
		Short:   "Watches the flows of a node, and sends short ones first",
		Version: start.Version(version),
	}
	root.AddCommand(agentCommand(), reportCommand(), orderCommand(), centralCommand(), checkCommand())
	return root
}

func agentCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "agent --observe|--order|--policy",
		Short: "Watch this node's flows, and order them where it is told to",
		Long: `Agent counts the flows that this node's pods send, by an eBPF program at the host's end of
each pod's veth pair. With --observe it reads packets and changes none; there is no queueing
discipline, and nothing is left behind when it ends, however it ends. With --order it puts the
thresholds in force that it finds, as "sigma-flow order on" does, and takes the order off when
it ends; killed by kill -9 it leaves it on, and the next agent takes it over. With --policy it
does what the FlowPolicy says that selects this node, and tells it in the node's NodeFlows; however
it ends, the order stays as it is, until a policy says otherwise or "sigma-flow order off" does.

Each minute it says in the log, in metrics, at /report and in --out how long short flows wait,
and how long they would in bands. The files sizes*.csv in --out are for
sigma flow simulate --sizes.`,
		Example: `  sigma-flow agent --observe
  sigma-flow agent --observe --interface eth0 --uplink eth0 --rate 10G --out /var/lib/sigma-flow
  sigma-flow agent --order --rate 9.4G
  sigma-flow agent --policy --node-name node-1 --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func reportCommand() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "report [URL or folder]",
		Short: "Print what an agent said last",
		Long: `Report prints what an agent on this node said last, what another says at a URL, or what one
wrote to a folder (agent --out).`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from := "http://" + defaultBind + "/report"
			if len(args) == 1 {
				from = args[0]
			}
			text, err := fetch(cmd.Context(), from)
			if err != nil {
				return err
			}
			switch format {
			case "json":
				_, err = cmd.OutOrStdout().Write(text)
				return err
			case "table":
				r, err := parseReport(from, text)
				if err != nil {
					return err
				}
				return r.Text(cmd.OutOrStdout())
			}
			return fmt.Errorf("--format %q: want table or json", format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	return cmd
}

// parseReport refuses texts that are not an agent's report.
func parseReport(from string, text []byte) (*observe.Report, error) {
	var r observe.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if r.At.IsZero() {
		return nil, fmt.Errorf("%s: at: it is missing: this is no agent's report", from)
	}
	return &r, nil
}

// mostReport is more than a report has.
const mostReport = 4 << 20

func fetch(ctx context.Context, from string) ([]byte, error) {
	if !strings.Contains(from, "://") {
		return os.ReadFile(filepath.Join(from, reportFile))
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, mostReport))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", from, response.Status, strings.TrimSpace(string(text)))
	}
	return text, err
}

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Print what this machine lacks for the agent",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return check(cmd.OutOrStdout()) },
	}
}

// check prints the features of the machine, and fails if the agent would not run.
func check(out io.Writer) error {
	needs := node.Probe()
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, n := range needs {
		switch {
		case n.Err == nil:
			fmt.Fprintf(t, "there\t%s\n", n.Name)
		case n.Required:
			fmt.Fprintf(t, "MISSING\t%s: %v\n", n.Name, n.Err)
		default:
			fmt.Fprintf(t, "missing\t%s, not needed to observe: %v\n", n.Name, n.Err)
		}
	}
	if list, err := node.Interfaces(nil); err != nil {
		fmt.Fprintf(t, "missing\tinterfaces: %v\n", err)
	} else if len(list) == 0 {
		fmt.Fprintf(t, "missing\tveth pairs of pods: there are none now; name others with --interface\n")
	} else {
		fmt.Fprintf(t, "there\t%d veth pairs of pods\n", len(list))
	}
	switch u, err := node.FindUplink(""); {
	case err != nil:
		fmt.Fprintf(t, "missing\tuplink: %v; name it with --uplink\n", err)
	case u.Rate == 0:
		fmt.Fprintf(t, "missing\trate of the uplink %s: it does not say; give it with --rate\n", u.Name)
	default:
		fmt.Fprintf(t, "there\tuplink %s of %sbit/s\n", u.Name, flow.FormatAmount(u.Rate))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if node.Missing(needs) != nil {
		return errMissing
	}
	return nil
}
