"""Parses the command line and calls the subcommand.

Each subcommand is a module that is imported only when it is asked for: ``sdi run`` must cost little.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from sdi.locate import NotInstalled
from sdi.settings import SettingsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the console script; the exit status (2: wrong usage or settings)."""
    options = _parser().parse_args(arguments)
    try:
        return _call(options)
    except (NotInstalled, SettingsError) as error:
        print(f"sdi: {error}", file=sys.stderr)
        return 2


def _call(options: argparse.Namespace) -> int:
    if options.subcommand in ("node", "devices", "explain", "predict"):  # which start no application
        from sdi import limits

        limits.without_threads_for_algebra()
    match options.subcommand:
        case "run" if options.hosts is not None:
            return _run_on_hosts(options)
        case "run":
            from sdi.cli.run import run

            return run(
                _strip_dashes(options.application),
                _changes(options),
                stats=options.stats,
                explain=options.explain,
            )
        case "node":
            from sdi.cli.job import node
            from sdi.cluster.start import place

            return node(place(os.environ))
        case "profile":
            from sdi.cli.profile import profile
            from sdi.cluster.start import place

            if options.application and place(os.environ) is not None:  # each process would start one
                print("sdi profile: not in a job; use SDI_PROFILE=DIR and sdi run there", file=sys.stderr)
                return 2

            return profile(options, _strip_dashes(options.application), _changes(options))
        case "env":
            from sdi.cli.env import show

            return show(_changes(options), vendors_only=options.vendors, include_only=options.include)
        case "devices":
            from sdi.cli.attributes import DevicesAsked
            from sdi.cli.devices import show_devices

            asked = DevicesAsked(options.measure, options.where, options.attributes)
            return show_devices(_changes(options), asked)
        case "explain":
            from sdi.cli.explain import explain
            from sdi.settings import Settings

            return explain(options, Settings.from_environ({**os.environ, **_changes(options)}).num_gpus)
        case "predict":
            from sdi.cli.predict import foretell

            return foretell(options)
        case "cache":
            from sdi.cli.cache import look_after

            return look_after(options)
        case _:
            from sdi.cli.doctor import examine

            if options.app:
                from sdi.cli.application import examine_application

                return examine_application(_strip_dashes(options.application), _changes(options))
            return examine(_changes(options))


def _run_on_hosts(options: argparse.Namespace) -> int:
    """Become mpiexec; 2 where that can't be."""
    from sdi.cli.hosts import HostsError, start_on
    from sdi.cluster.start import place
    from sdi.settings import Settings

    environ = {**os.environ, **_changes(options)}
    Settings.from_environ(environ)
    flags = [f"--{name}" for name in ("stats", "explain") if getattr(options, name)]
    application = _strip_dashes(options.application)
    try:
        if place(os.environ) is not None:
            raise HostsError("--hosts starts a job, and this is a process of one already")
        if not application:
            raise HostsError("no application given; try: sdi run --hosts a,b -- ./application")
        start_on(options.hosts, [*flags, "--", *application], environ)
    except HostsError as error:
        print(f"sdi run: {error}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sdi", description="Makes several OpenCL devices look like one.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    commands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")

    image = argparse.ArgumentParser(add_help=False)
    image.add_argument("-n", dest="num_gpus", metavar="N", help="members that make the image (SDI_NUM_GPUS)")
    image.add_argument("--devices", metavar="WHICH", help="which devices become members (SDI_DEVICES)")

    run = commands.add_parser(
        "run",
        parents=[image],
        help="run an application on the image",
        usage="sdi run [-n N] [--devices WHICH] [--split HOW] [--stats] [--explain] [--hosts LIST] [--] "
        "APPLICATION ...",
        description="Runs an application that then finds one OpenCL platform, SDI, with one device.",
    )
    run.add_argument(
        "--split", choices=["auto", "always", "never"], help="when to split launches (SDI_SPLIT)"
    )
    run.add_argument("--stats", action="store_true", help="print at the end how kernels were split")
    run.add_argument("--explain", action="store_true", help="print at the end how and why kernels were split")
    run.add_argument(
        "--hosts",
        metavar="LIST",
        help="on these machines, with so many processes on each: a:4,b:4 (starts the mpiexec that is "
        "installed; the application runs on the first)",
    )
    run.add_argument("application", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)

    commands.add_parser(
        "node",
        help="serve this machine's devices to the other processes of an MPI job",
        description="What mpiexec or srun starts on each machine of a job whose application is started "
        "otherwise: mpiexec -n 4 sdi node. Rank 0 prints the SDI_SERVICE with which applications on its "
        "machine find the image. With 'mpiexec -n 4 sdi run -- ./application' none of this is needed.",
    )

    profile = commands.add_parser(
        "profile",
        parents=[image],
        help="run an application on the image, and say where the time went",
        usage="sdi profile [-n N] [--devices WHICH] [--split HOW] [-o DIR] [--format LIST] [--fail-if EXPR]"
        " [--] APPLICATION ...\n"
        "       sdi profile -o DIR [--format LIST]\n"
        "       sdi profile --compare A B [--fail-if EXPR]",
        description="Runs an application and prints, at its end, tables of its commands, kernels, "
        "copies and losses. With -o, what was recorded stays in DIR, and the other formats are written "
        "there. Without an application: of what SDI_PROFILE=DIR recorded.",
    )
    profile.add_argument(
        "--split", choices=["auto", "always", "never"], help="when to split launches (SDI_SPLIT)"
    )
    profile.add_argument("-o", dest="folder", metavar="DIR", help="folder for the profile and the reports")
    profile.add_argument(
        "--format",
        default="table",
        metavar="LIST",
        help="table (on stderr), csv, json, chrome (trace.json, for ui.perfetto.dev), html (report.html); "
        "several with commas (default: table)",
    )
    profile.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="print the figures of two profiles side by side",
    )
    profile.add_argument(
        "--fail-if",
        metavar="EXPR",
        help='leave with status 3 where EXPR is true, such as "unexplained_percent > 5"; the README has '
        "the names of the figures",
    )
    profile.add_argument("application", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)

    env = commands.add_parser(
        "env",
        parents=[image],
        help="print the variables that make an application find the image",
        description='Prints shell commands; use as: eval "$(sdi env)"',
    )
    env.add_argument("--vendors", action="store_true", help="print only the value of OCL_ICD_VENDORS")
    env.add_argument("--include", action="store_true", help="print only the folder in which <CL/cl_sdi.h> is")

    explain = commands.add_parser(
        "explain",
        help="show how a kernel would be split, and why",
        description="Analyses kernels without running them: what each argument is read and written for, "
        "and with --global how a launch would be split. Needs no driver.",
    )
    explain.add_argument("file", metavar="FILE", help="a file of OpenCL C")
    explain.add_argument("--kernel", metavar="NAME", help="the kernel (default: all)")
    explain.add_argument("--global", dest="global_size", metavar="X,Y,Z", help="work-items of the launch")
    explain.add_argument("--local", dest="local_size", metavar="X,Y,Z", help="work-items of a work-group")
    explain.add_argument("--offset", metavar="X,Y,Z", help="global offset of the launch")
    explain.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="value of a scalar argument"
    )
    explain.add_argument(
        "--buffer", action="append", default=[], metavar="NAME=SIZE", help="bytes of a buffer: 4096, 64M"
    )
    explain.add_argument("-n", dest="num_gpus", metavar="N", help="members (SDI_NUM_GPUS; default: 2)")
    explain.add_argument("-D", dest="define", action="append", default=[], metavar="NAME[=VALUE]")
    explain.add_argument("-I", dest="include", action="append", default=[], metavar="FOLDER")
    explain.add_argument("--options", default="", help="more build options")
    explain.add_argument("--json", action="store_true", help="print JSON (design/0005 has the fields)")
    explain.add_argument(
        "--formula",
        action="store_true",
        help="bytes and speed-up as formulas in N and in sizes that --global, --arg and --buffer name",
    )
    explain.add_argument(
        "--at", action="append", default=[], metavar="NAME=VALUE", help="a size for which figures are shown"
    )
    explain.add_argument(
        "--swap",
        action="append",
        default=[],
        metavar="IN=OUT",
        help="the next launch reads through IN what this one writes through OUT",
    )
    explain.add_argument("--profile", metavar="DIR", help="a profile with measured rates for --formula")
    explain.add_argument("--latex", action="store_true", help="print formulas as LaTeX")
    explain.add_argument("--plot", metavar="FILE", help="draw the speed-up over N (.png, .svg, .pdf)")

    devices = commands.add_parser(
        "devices", parents=[image], help="list the members that make the image and what links them"
    )
    devices.add_argument(
        "--measure",
        action="store_true",
        help="copy between all of them; print GB/s, and what arrives damaged",
    )
    devices.add_argument(
        "--where",
        metavar="WHICH",
        help='list only the devices that WHICH selects, as SDI_DEVICES would: "gpu and memory > 40G"',
    )
    devices.add_argument("--attributes", action="store_true", help="list what queries can ask of devices")
    doctor = commands.add_parser(
        "doctor",
        parents=[image],
        help="check the installation; say what to fix",
        usage="sdi doctor [-n N] [--devices WHICH] [--app [--] APPLICATION ...]",
    )
    doctor.add_argument(
        "--app",
        action="store_true",
        help="run an application once; say what it used, lacked, and what to set",
    )
    doctor.add_argument("application", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    _add_cache(commands)
    _add_predict(commands)
    return parser


def _add_predict(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    predict = commands.add_parser(
        "predict",
        help="say what a recorded run would take on 1 to 64 members, and what limits it",
        description="Plans a run that 'sdi profile -o DIR' or SDI_PROFILE=DIR recorded for other numbers of "
        "members, as sdi would, with the measured times of its kernels. Needs no device.",
    )
    predict.add_argument("folder", metavar="DIR", help="the profile")
    predict.add_argument("--members", metavar="LIST", help="numbers of members (default: 1,2,4,8,16,32,64)")
    predict.add_argument(
        "--rates",
        metavar="NAME|FILE",
        help="costs of copies and launches: h200, h100, pcie, cpu or a TOML file (default: as the profile "
        "has them)",
    )
    predict.add_argument("--speed", default="1", metavar="X", help="kernels are X times as fast as recorded")
    predict.add_argument("--per-machine", metavar="M", help="members on each machine (default: of the rates)")
    predict.add_argument("--json", action="store_true", help="print JSON (design/0024 has the fields)")
    predict.add_argument("--plot", metavar="FILE", help="draw the speed-up over members (.png, .svg, .pdf)")


def _add_cache(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    kept = commands.add_parser(
        "cache",
        help="list, remove, export or import what runs have learnt",
        description="Under SDI_SPLIT=auto runs keep what launches taught: times per work-group, shares, "
        "number of members. The next run of the program begins with it.",
    )
    which = kept.add_mutually_exclusive_group()
    which.add_argument(
        "--list", action="store_true", help="what is kept, by program and kernel (the default)"
    )
    which.add_argument("--clear", action="store_true", help="remove it, and what analysis and compilers kept")
    which.add_argument("--export", dest="export_to", metavar="FILE", help="write it to a file (JSON)")
    which.add_argument(
        "--import", dest="import_from", metavar="FILE", help="take over such a file, of this machine's kind"
    )


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"sdi {version('sdi')}")
        parser.exit()


def _changes(options: argparse.Namespace) -> dict[str, str]:
    """The settings that the command line changes."""
    given = {
        "SDI_NUM_GPUS": getattr(options, "num_gpus", None),
        "SDI_DEVICES": getattr(options, "devices", None),
        "SDI_SPLIT": getattr(options, "split", None),
    }
    return {name: value for name, value in given.items() if value is not None}


def _strip_dashes(application: list[str]) -> list[str]:
    return application[1:] if application[:1] == ["--"] else application
