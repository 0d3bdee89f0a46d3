"""What holds for the code as a whole, whatever it computes. The import layers are checked by `make
check`."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import twosample

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "twosample"
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = sorted(
    ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for file in FILES
    if file.name != "__main__.py"
)
HEAVY = [
    "click",
    "dask",
    "hypothesis",
    "matplotlib",
    "PIL",
    "pandas",
    "polars",
    "pyarrow",
    "pytest",
    "rich",
    "sklearn",
    "typer",
]


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


# Imports


@pytest.mark.parametrize(
    "modules", [MODULES[::16], pytest.param(MODULES, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_each_module_can_be_imported_alone(modules):
    # Under an empty package root, or the root would import them all. A fork each: importing torch
    # anew takes seconds.
    run(
        "import os, sys, types, warnings, torch, scipy.stats, narwhals\n"
        "warnings.simplefilter('ignore', DeprecationWarning)  # of fork where torch has started "
        "threads\n"
        "root = types.ModuleType('twosample')\n"
        f"root.__path__ = [{str(SOURCE)!r}]\n"
        f"for module in {modules!r}:\n"
        "    if not (child := os.fork()):\n"
        "        try:\n"
        "            if module != 'twosample': sys.modules['twosample'] = root\n"
        "            __import__(module)\n"
        "        except BaseException as error:\n"
        "            print(module, repr(error), file=sys.stderr, flush=True); os._exit(1)\n"
        "        os._exit(0)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, module\n"
    )


def test_import_loads_nothing_until_a_name_is_used():
    loaded = run("import sys, twosample; twosample.__version__; print(*sys.modules)")
    assert set(loaded.split()) & {"numpy", "scipy", "torch", *HEAVY} == set()


def test_a_test_loads_only_what_it_needs_and_leaves_the_global_generators_alone():
    loaded = run(
        "import random, sys, numpy, torch\n"
        "before = random.getstate(), repr(numpy.random.get_state()), torch.get_rng_state()\n"
        "import twosample\n"
        "X, Y = numpy.random.default_rng(0).normal(size=(2, 20, 2))\n"
        "twosample.two_sample_test(X, Y, permutations=99, rng=0)\n"
        "assert random.getstate() == before[0] and repr(numpy.random.get_state()) == before[1]\n"
        "assert torch.equal(torch.get_rng_state(), before[2])\n"
        "print(*sys.modules)\n"
    )
    assert set(loaded.split()) & {"scipy.stats", "sqlite3", *HEAVY} == set()


def test_public_names_can_be_reached_in_every_way():
    run(
        "import pickle\n"
        "from twosample import MMD, errors, plots, testing\n"
        "MMD(), plots.power_curve, testing.__all__\n"
        "import twosample\n"
        "assert set(twosample.__all__) <= set(dir(twosample))\n"
        "assert twosample.errors.InputError is twosample.InputError\n"
        "from twosample import *\n"
        "assert all(globals()[name] is getattr(twosample, name) for name in twosample.__all__)\n"
        "assert pickle.loads(pickle.dumps(twosample.MMD)) is MMD\n"
    )
    with pytest.raises(AttributeError, match="module 'twosample' has no attribute 'nothing'"):
        _ = twosample.nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing' from 'twosample'"):
        from twosample import nothing  # noqa: F401


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_module_imports_from_the_package_root(file):
    # The root imports them all: that way lies a cycle of every module.
    depth = len(file.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] != "twosample" for alias in node.names), (
                f"line {node.lineno}"
            )
        if isinstance(node, ast.ImportFrom) and file != SOURCE / "__init__.py":
            root = (node.level == depth and node.module is None) or (
                node.level == 0 and node.module == "twosample"
            )
            assert not root, f"line {node.lineno}"


def test_the_map_and_the_picture_of_imports_are_those_of_the_code():
    graph = runpy.run_path(str(ROOT / "docs" / "import_graph.py"))
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    code_map, rest = contributing.split("## Who imports whom")
    names = {name for row in graph["layers"](ROOT) for name in row} - {"__main__", "_version"}
    assert names - set(re.findall(r"\w+", code_map)) == set()
    rows = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert "".join(f"    {row}\n" for row in rows[0]["layers"]) in rest
    # Where they differ: python docs/import_graph.py
    assert graph["PICTURE"].read_text() == graph["picture"]()


# Names


@pytest.mark.parametrize(
    "name", ["ABLATIONS", "Bounded", "DetectableEffect", "Frozen", "SplitRow", "corollary_split"]
)
def test_names_that_are_no_longer_public_still_work_and_warn(name):
    assert name not in twosample.__all__
    with pytest.warns(DeprecationWarning, match=f"twosample.{name} is no longer public") as seen:
        value = getattr(twosample, name)
    assert seen[0].filename == __file__
    home = seen[0].message.args[0].split("lives in ")[1].split(",")[0]
    assert getattr(importlib.import_module(home), name) is value


def test_all_is_sorted_and_complete():
    # The order is that of ruff: constants, classes, the rest.
    constants = [name for name in twosample.__all__ if name.isupper()]
    classes = [name for name in twosample.__all__ if not name.isupper() and name[0].isupper()]
    rest = [name for name in twosample.__all__ if not name[0].isupper()]
    assert twosample.__all__ == sorted(constants) + sorted(classes) + sorted(rest)
    public = {
        name
        for name, value in vars(twosample).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(twosample.__all__) - {"__version__"} == public


@pytest.mark.parametrize(
    "name", [name for name in twosample.__all__ if callable(getattr(twosample, name))]
)
def test_every_public_name_says_what_it_is(name):
    thing = getattr(twosample, name)
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        bare = [
            method
            for method, value in inspect.getmembers(thing)
            if not method.startswith("_")
            and getattr(value, "__module__", "").startswith("twosample")
            and (inspect.isfunction(value) or isinstance(value, property))
            and not inspect.getdoc(value)
            and not any(
                inspect.getdoc(vars(base)[method]) for base in thing.__mro__ if method in vars(base)
            )
        ]
        assert not bare


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name):
    assert importlib.import_module(name).__doc__


def test_the_package_is_typed_and_has_a_version():
    assert (SOURCE / "py.typed").exists()
    assert twosample.__version__[0].isdigit()


# Habits


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_assert_no_print_no_seed_in_the_library(file):
    tree = ast.parse(file.read_text())
    above = parents(tree)
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), (
            f"assert in line {node.lineno}: raise InputError instead"
        )
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called != "print", f"print in line {node.lineno}"
            assert called not in {"torch.manual_seed", "np.random.seed", "random.seed"}, (
                f"line {node.lineno}"
            )
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value) == "np.random"
            and isinstance(above[node], ast.Call)
        ):
            assert above[node].func is not node or node.attr in {"default_rng", "SeedSequence"}, (
                f"line {node.lineno}"
            )
        if isinstance(node, ast.FunctionDef):
            defaults = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            seeded = [
                a.arg
                for a, d in defaults
                if a.arg in {"rng", "seed"} and isinstance(d, ast.Constant) and d.value is not None
            ]
            assert not seeded, f"{node.name} in line {node.lineno} has a seed for a default"


def tracked() -> list[Path]:
    """The files that git knows or would add."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    files = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    return [file for file in files if file.is_file()]


def test_no_file_names_a_machine():
    # Put together here, so that this file does not name one either.
    words = ["/" + folder + "/" for folder in ("work", "opt", "root", "home")] + [
        "file:" + "//",
        "+" + "cpu",
        "pypi" + ".org",
    ]
    found = [
        f"{file.relative_to(ROOT)}: {word}"
        for file in tracked()
        for word in words
        if word.encode() in file.read_bytes()
    ]
    assert not found


def test_pins_are_exact_and_cover_the_dependencies():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    names = [pin.partition("==")[0] for pin in pins]
    assert all(pin.count("==") == 1 and " " not in pin for pin in pins)
    assert len(set(names)) == len(names)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = project["project"]["dependencies"] + project["build-system"]["requires"]
    needed += [
        item for extra in project["project"]["optional-dependencies"].values() for item in extra
    ]
    assert {item.partition(">=")[0] for item in needed if not item.startswith("twosample[")} <= set(
        names
    )


def test_the_demo_tables_are_what_their_script_writes(tmp_path):
    shutil.copy(ROOT / "demo" / "make_tables.py", tmp_path)
    subprocess.run([sys.executable, tmp_path / "make_tables.py"], check=True)
    written = sorted(tmp_path.glob("*.csv"))
    assert [file.name for file in written] == sorted(
        file.name for file in (ROOT / "demo").glob("*.csv")
    )
    for file in written:
        assert file.read_bytes() == (ROOT / "demo" / file.name).read_bytes()
        assert file.stat().st_size < 40_000
