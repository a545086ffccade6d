"""How the checks of this folder end."""


def verdict(problems, all_well):
    """Prints the problems, or that all is well; returns the exit status."""
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems" if problems else all_well)
    return 1 if problems else 0
