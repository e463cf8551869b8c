// Command release builds the files that users install: images of the programs, without
// Docker, a Helm chart of the manifests, and the folder of a release.
//
//	go run . images --source ../.. --out ../../out/images
//	go run . push --from ../../out/images REGISTRY
//	go run . chart --source ../.. --out ../../out/chart/sigma
//	go run . install --source ../.. --out ../../out/install
//	go run . release --source ../.. --images ../../out/images --out ../../out/release
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(start()) }

func start() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "release", Short: "Build what users install",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(imagesCommand(), pushCommand(), chartCommand(), installCommand(), releaseCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		return 1
	}
	return 0
}

func imagesCommand() *cobra.Command {
	var (
		out    string
		source = source{}
	)
	c := &cobra.Command{
		Use: "images", Short: "An OCI layout and a tarball of each program's image",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return writeImages(c.Context(), &source, out, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&out, "out", "out/images", "folder to write; images that a former build left there go")
	source.addFlags(c)
	c.Flags().StringSliceVar(&source.programs, "program", programs, "programs to build")
	return c
}

func (s *source) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&s.root, "source", ".", "root of the checkout")
	c.Flags().StringVar(&s.version, "version", "dev", "version that programs and labels state; tag of the images")
	c.Flags().StringVar(&s.revision, "revision", "", "commit that the labels state")
	c.Flags().StringSliceVar(&s.archs, "arch", []string{"amd64", "arm64"}, "architectures of the images")
}

func installCommand() *cobra.Command {
	var source, out, registry, version string
	c := &cobra.Command{
		Use: "install", Short: "The manifests as files for `kubectl apply -f`",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return writeInstall(source, out, registry, version) },
	}
	c.Flags().StringVar(&source, "source", ".", "root of the checkout")
	c.Flags().StringVar(&out, "out", "out/install", "folder to write into")
	c.Flags().StringVar(&registry, "registry", "", "where users pull the images from; empty: nodes have them")
	c.Flags().StringVar(&version, "version", "dev", "tag of the images")
	return c
}

func releaseCommand() *cobra.Command {
	var out string
	r := release{platforms: platforms}
	c := &cobra.Command{
		Use: "release", Short: "The folder of a release: images, manifests, chart, programs, sums, bill of materials, notes",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.write(c.Context(), out, c.OutOrStdout()) },
	}
	r.programs = programs
	r.addFlags(c)
	c.Flags().StringVar(&out, "out", "out/release", "folder to write; a former release there goes")
	c.Flags().StringVar(&r.images, "images", "out/images", "folder to write the images to, for a push")
	c.Flags().StringVar(&r.registry, "registry", "", "where users pull the images from; empty: nodes have them")
	c.Flags().StringVar(&r.url, "url", "", "folder on the web that will hold the files, for krew; empty: no manifest for krew")
	return c
}

func pushCommand() *cobra.Command {
	var from, tag string
	c := &cobra.Command{
		Use: "push REGISTRY", Short: "Push the images that `images` wrote",
		Long: "Push the images that `images` wrote to REGISTRY/PROGRAM:TAG, with the credentials of\n" +
			"`docker login` ($DOCKER_CONFIG), podman or the cloud's credential helper.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return pushImages(c.Context(), from, args[0], tag, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&from, "from", "out/images", "folder that `images` wrote")
	c.Flags().StringVar(&tag, "tag", "", "tag; by default the version that the images state")
	return c
}

func chartCommand() *cobra.Command {
	var source, out, version string
	c := &cobra.Command{
		Use: "chart", Short: "A Helm chart of the manifests",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := writeChart(source, out, version); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), out)
			return err
		},
	}
	c.Flags().StringVar(&source, "source", ".", "root of the checkout")
	c.Flags().StringVar(&out, "out", "out/chart/sigma", "folder to write; what is there goes")
	c.Flags().StringVar(&version, "version", "dev", "version of the chart, and default tag of the images")
	return c
}
